/* The recorder of real numbers in C: the classes of scalars, the rows of their tape, and the reverse sweep.

It does what `wiregrad.frontends.recording.scalar` and `tape` do in Python, with the same bits, and takes the fast path
only where they do: everything else (other operands, blocks such as no_grad, numbers where Python raises) is handed to
the Python functions that `connect` was given. Ops are not named here: their bodies are in op_bodies.h, which is
written from the op table.

Values, tapes and notes are the Python classes with __slots__; `connect` reads where their slots are. A scalar adds its
number to a value, and its offset on the tape is a plain number in the slot `_index`, so that neither needs a Python
object.

An op has two paths. The first (`record_unary`, `record_binary`) is written into each operator and method: both operands
are on one tape of this thread, or one is a float, and no block is open. Everything else is on the second
(`apply_unary`, `apply_binary`). */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if PY_BIG_ENDIAN
#error "rows are little-endian"
#endif

#include "python_numbers.h"

/* ---- Ops ---- */

typedef struct {
    double y, p, q; /* the value, and for each input its slope, or the number if it is a literal */
    int blocked;    /* bit k: no gradient flows to input k */
} Outcome;

typedef int (*OpBody)(double, double, Outcome *);

#if defined(__GNUC__)
#define INLINED static inline __attribute__((always_inline))
#else
#define INLINED static inline
#endif

typedef struct {
    const char *name;
    int arity;
    int has_kinks;
    OpBody of_values, of_literal_second, of_literal_first;
    PyCFunction method;
    PyObject *op;
    uint16_t code;
} ScalarOp;

/* ---- What the Python side gave to `connect` ---- */

#define ROW_SIZE 34
enum { LITERAL = -1, EXTRA = -2, BLOCKED = -3 };

typedef struct {
    PyObject *quietly, *apart, *general, *recorded;
} Helpers;

static PyTypeObject *value_class, *scalar_class, *numpy_scalar_class;
static PyTypeObject *tape_class, *notes_class, *extra_class, *float64_class;
static PyObject *input_op, *user_kind;
static char extra_row[ROW_SIZE];
static PyObject *paused, *chosen_blocks; /* dicts: while they are empty, no block changes how rows are made */
static PyObject *running;                /* a dict of threads that may be running a transform */
static PyObject *last_lookup;            /* a list: empty until a recorded number is looked up in a dict */
static PyObject *chosen_convention;
static PyObject *place_one, *place_two;
static PyObject *ufunc_ops, *ufunc_fallback;
static PyObject *numpy_true, *numpy_false;
static PyObject *comparisons[2][6];
static Helpers helpers[2]; /* of Python's numbers, and of NumPy's */
static int is_connected, asks_convention;
static Py_ssize_t max_tape_bytes, max_passes;

static PyObject *current_tape;                  /* a function: the tape for an op on leaves alone */
static PyObject *data_property, *grad_property; /* of values */

static Py_ssize_t weakrefs;
static Py_ssize_t tape_buffer, tape_owner, tape_serial, tape_extras, tape_leaves, tape_kind, tape_guard, tape_hooks;
static Py_ssize_t notes_constant, notes_serial, notes_offset, notes_home, notes_grad, notes_hooks, notes_passes;
static Py_ssize_t notes_name, notes_born;

#define SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))

/* A value whose class is one of the two below: the slots of values, in alphabetical order, and the number. */
typedef struct {
    PyObject_HEAD
    PyObject *data;
    Py_ssize_t offset; /* in the slot `_index`, which both classes hide */
    PyObject *notes;
    PyObject *tape;
#if PY_VERSION_HEX < 0x030C0000
    PyObject *weakrefs; /* later versions keep them before the object */
#endif
    double number;
} Scalar;

#define SCALAR(object) ((Scalar *)(object))
#define IS_SCALAR(object) (Py_TYPE(object) == scalar_class || Py_TYPE(object) == numpy_scalar_class)

/* ---- The classes of scalars ---- */

#include "scalar_memory.h"

static int scalar_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(SCALAR(self)->notes);
    Py_VISIT(SCALAR(self)->tape);
    return 0; /* the data is a float */
}

static int scalar_clear(PyObject *self)
{
    Py_CLEAR(SCALAR(self)->notes);
    Py_CLEAR(SCALAR(self)->tape);
    return 0;
}

static void scalar_dealloc(PyObject *self)
{
    PyTypeObject *kind = Py_TYPE(self);
#if HIDES_SCALARS
    if (HEAD_OF(self)->next != 0)
#endif
        PyObject_GC_UnTrack(self);
    if (SLOT(self, weakrefs) != NULL)
        PyObject_ClearWeakRefs(self);
    scalar_clear(self);
    Py_CLEAR(SCALAR(self)->data);
#if HIDES_SCALARS
    if (kind == scalar_class || kind == numpy_scalar_class) {
        give_scalar(SCALAR(self));
        return;
    }
#endif
    PyObject_GC_Del(self);
    Py_DECREF(kind);
}

/* Python lets nobody give a scalar a class whose objects are freed in another way. */
static void scalar_free(void *self)
{
    PyObject_GC_Del(self);
}

static Scalar *new_scalar(PyTypeObject *kind)
{
#if HIDES_SCALARS
    if (kind == scalar_class || kind == numpy_scalar_class) {
        Scalar *taken = take_scalar(kind);
        if (taken == NULL)
            PyErr_NoMemory();
        return taken;
    }
#endif
    PyObject *self = PyObject_GC_New(PyObject, kind);
    if (self != NULL)
        memset((char *)self + sizeof(PyObject), 0, (size_t)kind->tp_basicsize - sizeof(PyObject));
    return SCALAR(self);
}

static PyObject *scalar_alloc(PyTypeObject *kind, Py_ssize_t Py_UNUSED(items))
{
    Scalar *self = new_scalar(kind);
    if (self == NULL)
        return NULL;
    self->number = 0.0;
    self->offset = 0;
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static PyObject *get_data(PyObject *self, void *Py_UNUSED(closure))
{
    /* The number as an object is made when it is first read, and kept: a caller may tell numbers apart by identity. */
    PyObject *data = SCALAR(self)->data;
    if (data == NULL)
        data = SCALAR(self)->data = PyFloat_FromDouble(SCALAR(self)->number);
    return Py_XNewRef(data);
}

static int set_data(PyObject *self, PyObject *data, void *Py_UNUSED(closure))
{
    if (data == NULL || !PyFloat_CheckExact(data)) {
        PyErr_SetString(PyExc_TypeError, "the data of a scalar is a float");
        return -1;
    }
    SCALAR(self)->number = PyFloat_AS_DOUBLE(data);
    Py_XSETREF(SCALAR(self)->data, Py_NewRef(data));
    return 0;
}

static PyObject *get_index(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromSsize_t(SCALAR(self)->offset);
}

static int set_index(PyObject *self, PyObject *index, void *Py_UNUSED(closure))
{
    if (index == NULL) {
        PyErr_SetString(PyExc_TypeError, "the index of a scalar cannot be deleted");
        return -1;
    }
    const Py_ssize_t offset = PyLong_AsSsize_t(index);
    if (offset == -1 && PyErr_Occurred())
        return -1;
    SCALAR(self)->offset = offset;
    return 0;
}

/* ---- Rows ---- */

static PyObject *call_helper(PyObject *helper, ScalarOp *op, PyObject *one, PyObject *two)
{
    PyObject *operands = two == NULL ? PyTuple_Pack(1, one) : PyTuple_Pack(2, one, two);
    if (operands == NULL)
        return NULL;
    PyObject *result = PyObject_CallFunctionObjArgs(helper, op->op, operands, NULL);
    Py_DECREF(operands);
    return result;
}

static PyObject *call_apart(const Helpers *helper, ScalarOp *op, PyObject *one, PyObject *two, double y)
{
    PyObject *number = PyFloat_FromDouble(y);
    PyObject *operands = two == NULL ? PyTuple_Pack(1, one) : PyTuple_Pack(2, one, two);
    PyObject *result = NULL;
    if (number != NULL && operands != NULL)
        result = PyObject_CallFunctionObjArgs(helper->apart, op->op, operands, number, NULL);
    Py_XDECREF(number);
    Py_XDECREF(operands);
    return result;
}

/* Whether another convention than that of rows is chosen for kinks; -1 on an error. */
static int diverts(const ScalarOp *op)
{
    if (!op->has_kinks || (!asks_convention && PyDict_GET_SIZE(chosen_blocks) == 0))
        return 0;
    PyObject *chosen = PyObject_CallNoArgs(chosen_convention);
    if (chosen == NULL)
        return -1;
    const int truth = PyObject_IsTrue(chosen);
    Py_DECREF(chosen);
    return truth;
}

/* What tells the running thread from all others that are alive, at the cost of one instruction where that is known. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && (__GNUC__ >= 11 || __clang_major__ >= 14)
#define THREAD_MARK() ((uintptr_t)__builtin_thread_pointer())
#else
#define THREAD_MARK() ((uintptr_t)PyThread_get_thread_ident())
#endif

/* The owner of the tape that was last used, its thread, and the mark of that thread; no mark unless
   the thread itself was seen running. */
static PyObject *known_owner;
static unsigned long known_ident;
static uintptr_t known_mark;

static int learn_owner(PyObject *owner)
{
    if (owner == NULL || !PyLong_CheckExact(owner))
        return 0;
    const unsigned long ident = PyLong_AsUnsignedLong(owner);
    if (ident == (unsigned long)-1 && PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    Py_XSETREF(known_owner, Py_NewRef(owner));
    known_ident = ident;
    known_mark = 0;
    return 1;
}

/* Whether an object is a tape of this thread; may say no to one whose owner was not the last that was seen. */
INLINED int is_known_tape(PyObject *tape)
{
    return tape != NULL && Py_TYPE(tape) == tape_class && SLOT(tape, tape_owner) == known_owner &&
           known_mark == THREAD_MARK();
}

static int is_own_tape(PyObject *tape)
{
    if (tape == NULL || Py_TYPE(tape) != tape_class)
        return 0;
    PyObject *owner = SLOT(tape, tape_owner);
    if ((owner == NULL || owner != known_owner) && !learn_owner(owner))
        return 0;
    if (known_ident != PyThread_get_thread_ident())
        return 0;
    known_mark = THREAD_MARK();
    return 1;
}

/* The rows of a tape, if one more can be written at their end as they are; else NULL. */
INLINED PyByteArrayObject *find_room(PyObject *tape)
{
    PyObject *buffer = SLOT(tape, tape_buffer);
    if (buffer == NULL || !PyByteArray_CheckExact(buffer))
        return NULL;
    PyByteArrayObject *rows = (PyByteArrayObject *)buffer;
    const int has_room = Py_SIZE(rows) + ROW_SIZE < rows->ob_alloc && rows->ob_start == rows->ob_bytes;
    return has_room && rows->ob_exports == 0 ? rows : NULL;
}

#define FIRST_ROWS 64
#define SHORT_TAPE_ROWS 512

/* Make room for a row at the end of a tape; returns its rows, or NULL on an error. */
static PyByteArrayObject *grow_tape(PyObject *tape)
{
    PyByteArrayObject *rows = find_room(tape);
    if (rows != NULL)
        return rows;
    PyObject *buffer = SLOT(tape, tape_buffer);
    if (buffer == NULL || !PyByteArray_CheckExact(buffer)) {
        PyErr_SetString(PyExc_SystemError, "a tape has no rows");
        return NULL;
    }
    /* Python would give back most of a reserve that is larger than what it holds: so the size is set here. Short tapes
       grow faster, as copying rows again and again would cost more than recording them. */
    const Py_ssize_t size = PyByteArray_GET_SIZE(buffer);
    const Py_ssize_t reserve = size < SHORT_TAPE_ROWS * ROW_SIZE ? 3 * size : size / 2;
    if (PyByteArray_Resize(buffer, size + reserve + FIRST_ROWS * ROW_SIZE) < 0)
        return NULL;
    Py_SET_SIZE(buffer, size);
    return (PyByteArrayObject *)buffer;
}

/* What PyByteArray_Resize does where there is room; returns where the row begins. */
INLINED char *extend_rows(PyByteArrayObject *rows)
{
    const Py_ssize_t offset = Py_SIZE(rows);
    Py_SET_SIZE(rows, offset + ROW_SIZE);
    rows->ob_start[offset + ROW_SIZE] = 0;
    return rows->ob_start + offset;
}

/* Append the row of a node to rows that have room. */
INLINED void append_row(PyByteArrayObject *rows, const Outcome *outcome, Py_ssize_t first, Py_ssize_t second,
                        uint16_t code)
{
    const int32_t a = (int32_t)(outcome->blocked & 1 ? BLOCKED - first : first);
    const int32_t b = (int32_t)(outcome->blocked & 2 ? BLOCKED - second : second);
    char *row = extend_rows(rows);
    memcpy(row, &outcome->y, 8);
    memcpy(row + 8, &outcome->p, 8);
    memcpy(row + 16, &outcome->q, 8);
    memcpy(row + 24, &a, 4);
    memcpy(row + 28, &b, 4);
    memcpy(row + 32, &code, 2);
}

/* Append the row of a node and return its value. Takes one reference to the tape, which has room. */
INLINED PyObject *append_node(PyTypeObject *kind, PyObject *tape, PyByteArrayObject *rows, const Outcome *outcome,
                              Py_ssize_t first, Py_ssize_t second, uint16_t code)
{
#if HIDES_SCALARS
    Scalar *result = take_scalar(kind);
#else
    Scalar *result = new_scalar(kind);
#endif
    if (result == NULL) {
        Py_DECREF(tape);
        return PyErr_NoMemory();
    }
    result->tape = tape;
    result->number = outcome->y;
    result->offset = Py_SIZE(rows);
    append_row(rows, outcome, first, second, code);
#if !HIDES_SCALARS
    PyObject_GC_Track(result);
#endif
    return (PyObject *)result;
}

/* The same, where there may be no room. */
static PyObject *make_node(PyTypeObject *kind, PyObject *tape, const Outcome *outcome, Py_ssize_t first,
                           Py_ssize_t second, uint16_t code)
{
    PyByteArrayObject *rows = grow_tape(tape);
    if (rows == NULL) {
        Py_DECREF(tape);
        return NULL;
    }
    return append_node(kind, tape, rows, outcome, first, second, code);
}

#include "leaves.h"

static int fits_row(Py_ssize_t offset)
{
    return offset < INT32_MAX - ROW_SIZE;
}

/* Find the tape for a row of one value, and the offset of the value there. Returns a new reference; NULL without an
   error if the value is not recorded now. */
static PyObject *place_value(PyObject *value, Py_ssize_t *offset)
{
    PyObject *tape = tape_of(value);
    if (PyDict_GET_SIZE(paused) == 0) {
        if (is_own_tape(tape)) {
            *offset = SCALAR(value)->offset;
            return Py_NewRef(tape);
        }
        if (tape == NULL && is_variable(value) && !is_running()) {
            PyObject *home = find_home(value);
            if (home == NULL)
                home = find_latest();
            if (home == NULL)
                return NULL;
            *offset = place_leaf(value, home);
            if (*offset >= 0)
                return home;
            Py_DECREF(home);
        }
    }
    PyObject *place = PyObject_CallOneArg(place_one, value);
    if (place == NULL)
        return NULL;
    PyObject *chosen = NULL;
    if (!PyTuple_Check(place) || PyTuple_GET_SIZE(place) != 2)
        PyErr_SetString(PyExc_SystemError, "place_one returns a tape and an offset");
    else if (PyTuple_GET_ITEM(place, 0) != Py_None) {
        *offset = PyLong_AsSsize_t(PyTuple_GET_ITEM(place, 1));
        if (*offset != -1 || !PyErr_Occurred())
            chosen = Py_NewRef(PyTuple_GET_ITEM(place, 0));
    }
    Py_DECREF(place);
    return chosen;
}

/* The same for two values. */
static PyObject *place_values(PyObject *one, PyObject *two, Py_ssize_t *first, Py_ssize_t *second)
{
    PyObject *tape = tape_of(one);
    PyObject *other = tape_of(two);
    if (PyDict_GET_SIZE(paused) == 0) {
        if (tape == other && tape != NULL) {
            if (is_own_tape(tape)) {
                *first = SCALAR(one)->offset;
                *second = SCALAR(two)->offset;
                return Py_NewRef(tape);
            }
        }
        else if ((tape == NULL) != (other == NULL) && !is_running()) {
            PyObject *chosen = tape != NULL ? tape : other;
            if (is_own_tape(chosen)) {
                *first = tape == NULL ? place_leaf(one, chosen) : SCALAR(one)->offset;
                *second = other == NULL ? place_leaf(two, chosen) : SCALAR(two)->offset;
                if (*first >= 0 && *second >= 0)
                    return Py_NewRef(chosen);
            }
        }
        else if (tape == NULL && other == NULL && is_variable(one) && is_variable(two) && !is_running()) {
            PyObject *home = find_home(one);
            if (home == NULL)
                home = find_home(two);
            if (home == NULL)
                home = find_latest();
            if (home == NULL)
                return NULL;
            *first = place_leaf(one, home);
            *second = *first < 0 ? -1 : place_leaf(two, home);
            if (*first >= 0 && *second >= 0)
                return home;
            Py_DECREF(home);
        }
    }
    PyObject *place = PyObject_CallFunctionObjArgs(place_two, one, two, NULL);
    if (place == NULL)
        return NULL;
    PyObject *chosen = NULL;
    if (!PyTuple_Check(place) || PyTuple_GET_SIZE(place) != 3)
        PyErr_SetString(PyExc_SystemError, "place_two returns a tape and two offsets");
    else if (PyTuple_GET_ITEM(place, 0) != Py_None) {
        *first = PyLong_AsSsize_t(PyTuple_GET_ITEM(place, 1));
        *second = PyLong_AsSsize_t(PyTuple_GET_ITEM(place, 2));
        if (!PyErr_Occurred())
            chosen = Py_NewRef(PyTuple_GET_ITEM(place, 0));
    }
    Py_DECREF(place);
    return chosen;
}

/* Apply an op of one input to a scalar; `kind` is the class of the result, NULL for that of the operand. */
static PyObject *apply_unary(ScalarOp *op, PyObject *self, PyTypeObject *kind)
{
    if (!IS_SCALAR(self)) {
        PyErr_Format(PyExc_TypeError, "%s needs a scalar; got %s", op->name, Py_TYPE(self)->tp_name);
        return NULL;
    }
    if (kind == NULL)
        kind = Py_TYPE(self);
    const Helpers *helper = &helpers[kind == numpy_scalar_class];
    const int diverted = diverts(op);
    Outcome outcome;
    if (diverted < 0)
        return NULL;
    if (diverted || op->of_values(SCALAR(self)->number, 0.0, &outcome))
        return call_helper(helper->quietly, op, self, NULL);
    Py_ssize_t offset = 0;
    PyObject *tape = place_value(self, &offset);
    if (tape == NULL)
        return PyErr_Occurred() ? NULL : call_apart(helper, op, self, NULL, outcome.y);
    if (!fits_row(offset) || Py_TYPE(tape) != tape_class) {
        Py_DECREF(tape);
        return call_helper(helper->recorded, op, self, NULL);
    }
    return make_node(kind, tape, &outcome, offset, LITERAL, op->code);
}

/* Read a plain number that a row can hold: 1 if it is one, 2 if it is NumPy's, 0 if not, -1 if it is too large. */
INLINED int read_literal(PyObject *operand, double *number)
{
    if (PyFloat_CheckExact(operand)) {
        *number = PyFloat_AS_DOUBLE(operand);
        return 1;
    }
    if (Py_TYPE(operand) == float64_class) {
        *number = PyFloat_AS_DOUBLE(operand);
        return 2;
    }
    if (PyLong_CheckExact(operand)) {
        *number = PyLong_AsDouble(operand);
        if (*number == -1.0 && PyErr_Occurred()) {
            PyErr_Clear();
            return -1;
        }
        return 1;
    }
    return 0;
}

static PyObject *apply_to_literal(ScalarOp *op, PyObject *self, PyObject *other, int is_first, PyTypeObject *kind)
{
    PyObject *one = is_first ? other : self;
    PyObject *two = is_first ? self : other;
    double literal = 0.0;
    const int found = read_literal(other, &literal);
    if (kind == NULL)
        kind = found == 2 ? numpy_scalar_class : Py_TYPE(self);
    const Helpers *helper = &helpers[kind == numpy_scalar_class];
    if (found == 0)
        return call_helper(helper->general, op, one, two);
    const int diverted = diverts(op);
    if (diverted < 0)
        return NULL;
    if (diverted || found < 0)
        return call_helper(helper->quietly, op, one, two);
    Outcome outcome;
    const double number = SCALAR(self)->number;
    const int raised = is_first ? op->of_literal_first(literal, number, &outcome)
                                : op->of_literal_second(number, literal, &outcome);
    if (raised)
        return call_helper(helper->quietly, op, one, two);
    Py_ssize_t offset = 0;
    PyObject *tape = place_value(self, &offset);
    if (tape == NULL)
        return PyErr_Occurred() ? NULL : call_apart(helper, op, one, two, outcome.y);
    if (!fits_row(offset) || Py_TYPE(tape) != tape_class) {
        Py_DECREF(tape);
        return call_helper(helper->recorded, op, one, two);
    }
    return is_first ? make_node(kind, tape, &outcome, LITERAL, offset, op->code)
                    : make_node(kind, tape, &outcome, offset, LITERAL, op->code);
}

/* Apply an op of two inputs, at least one of them a scalar. */
static PyObject *apply_binary(ScalarOp *op, PyObject *one, PyObject *two, PyTypeObject *kind)
{
    if (!IS_SCALAR(one)) {
        if (!IS_SCALAR(two)) {
            PyErr_Format(PyExc_TypeError, "%s needs a scalar", op->name);
            return NULL;
        }
        return apply_to_literal(op, two, one, 1, kind);
    }
    if (!IS_SCALAR(two))
        return apply_to_literal(op, one, two, 0, kind);
    if (kind == NULL)
        kind = Py_TYPE(one) == scalar_class ? Py_TYPE(two) : numpy_scalar_class;
    const Helpers *helper = &helpers[kind == numpy_scalar_class];
    const int diverted = diverts(op);
    Outcome outcome;
    if (diverted < 0)
        return NULL;
    if (diverted || op->of_values(SCALAR(one)->number, SCALAR(two)->number, &outcome))
        return call_helper(helper->quietly, op, one, two);
    Py_ssize_t first = 0;
    Py_ssize_t second = 0;
    PyObject *tape = place_values(one, two, &first, &second);
    if (tape == NULL)
        return PyErr_Occurred() ? NULL : call_apart(helper, op, one, two, outcome.y);
    if (first < 0 || second < 0 || !fits_row(first) || !fits_row(second) || Py_TYPE(tape) != tape_class) {
        Py_DECREF(tape);
        return call_helper(helper->recorded, op, one, two);
    }
    return make_node(kind, tape, &outcome, first, second, op->code);
}

/* Whether nothing asks for more care than the fast path takes: no block is open, and no other convention chosen. */
INLINED int is_plain(int has_kinks)
{
    return PyDict_GET_SIZE(paused) == 0 && (!has_kinks || (!asks_convention && PyDict_GET_SIZE(chosen_blocks) == 0));
}

/* The rows of the tape of a scalar, if an op on it can be appended there as they are; else NULL. */
INLINED PyByteArrayObject *find_rows(PyObject *tape)
{
    PyByteArrayObject *rows = is_known_tape(tape) ? find_room(tape) : NULL;
    return rows != NULL && fits_row(Py_SIZE(rows)) ? rows : NULL;
}

/* The tape of a scalar, or the one where a leaf was used last; a borrowed reference, or NULL. */
INLINED PyObject *find_tape(PyObject *value)
{
    PyObject *tape = SCALAR(value)->tape;
    return tape == Py_None && PyDict_GET_SIZE(running) == 0 ? borrow_home(value) : tape;
}

/* The offset of a scalar on a tape, or of a leaf that was used there before; else -1. */
INLINED Py_ssize_t find_operand(PyObject *value, PyObject *tape)
{
    if (SCALAR(value)->tape == tape)
        return SCALAR(value)->offset;
    return SCALAR(value)->tape == Py_None && PyDict_GET_SIZE(running) == 0 ? find_leaf(value, tape) : -1;
}

INLINED PyObject *record_unary(ScalarOp *op, OpBody of_values, int has_kinks, PyObject *self)
{
    if (!IS_SCALAR(self) || !is_plain(has_kinks))
        return apply_unary(op, self, NULL);
    PyObject *tape = find_tape(self);
    PyByteArrayObject *rows = find_rows(tape);
    const Py_ssize_t offset = rows == NULL ? -1 : find_operand(self, tape);
    Outcome outcome;
    if (offset < 0 || of_values(SCALAR(self)->number, 0.0, &outcome))
        return apply_unary(op, self, NULL);
    return append_node(Py_TYPE(self), Py_NewRef(tape), rows, &outcome, offset, LITERAL, op->code);
}

INLINED PyObject *record_scalars(ScalarOp *op, OpBody of_values, PyObject *one, PyObject *two)
{
    PyObject *tape = SCALAR(one)->tape == Py_None && SCALAR(two)->tape != Py_None ? SCALAR(two)->tape : find_tape(one);
    PyByteArrayObject *rows = find_rows(tape);
    const Py_ssize_t first = rows == NULL ? -1 : find_operand(one, tape);
    const Py_ssize_t second = first < 0 ? -1 : find_operand(two, tape);
    Outcome outcome;
    if (second < 0 || of_values(SCALAR(one)->number, SCALAR(two)->number, &outcome))
        return apply_binary(op, one, two, NULL);
    PyTypeObject *kind = Py_TYPE(one) == scalar_class ? Py_TYPE(two) : numpy_scalar_class;
    return append_node(kind, Py_NewRef(tape), rows, &outcome, first, second, op->code);
}

/* A float, an int, or a float of NumPy's, which makes the result NumPy's. */
INLINED int is_literal(PyObject *operand)
{
    return PyFloat_CheckExact(operand) || PyLong_CheckExact(operand) || Py_TYPE(operand) == float64_class;
}

INLINED PyObject *record_literal(ScalarOp *op, OpBody of_literal, PyObject *one, PyObject *two, int is_first)
{
    PyObject *self = is_first ? two : one;
    PyObject *other = is_first ? one : two;
    double literal = 0.0;
    const int found = read_literal(other, &literal);
    if (found <= 0)
        return apply_binary(op, one, two, NULL);
    PyTypeObject *kind = found == 2 ? numpy_scalar_class : Py_TYPE(self);
    const double number = SCALAR(self)->number;
    PyObject *tape = find_tape(self);
    PyByteArrayObject *rows = find_rows(tape);
    const Py_ssize_t offset = rows == NULL ? -1 : find_operand(self, tape);
    Outcome outcome;
    if (offset < 0 || of_literal(is_first ? literal : number, is_first ? number : literal, &outcome))
        return apply_binary(op, one, two, NULL);
    return append_node(kind, Py_NewRef(tape), rows, &outcome, is_first ? LITERAL : offset, is_first ? offset : LITERAL,
                       op->code);
}

INLINED PyObject *record_binary(ScalarOp *op, OpBody of_values, OpBody of_literal_second, OpBody of_literal_first,
                                int has_kinks, PyObject *one, PyObject *two)
{
    if (is_plain(has_kinks)) {
        if (IS_SCALAR(one) && IS_SCALAR(two))
            return record_scalars(op, of_values, one, two);
        if (IS_SCALAR(one) && is_literal(two))
            return record_literal(op, of_literal_second, one, two, 0);
        if (is_literal(one) && IS_SCALAR(two))
            return record_literal(op, of_literal_first, one, two, 1);
    }
    return apply_binary(op, one, two, NULL);
}

#include "op_bodies.h"

#define OP_COUNT ((Py_ssize_t)(sizeof(OPS) / sizeof(OPS[0])))

static PyObject *scalar_compare(PyObject *self, PyObject *other, int sign)
{
    const int is_numpy = Py_TYPE(self) == numpy_scalar_class;
    const int is_known = PyFloat_CheckExact(other) || Py_TYPE(other) == scalar_class ||
                         (is_numpy && Py_TYPE(other) == numpy_scalar_class);
    if (!is_known || (!is_numpy && PyDict_GET_SIZE(paused) != 0) || (sign == Py_EQ && PyList_GET_SIZE(last_lookup) != 0))
        return PyObject_CallFunctionObjArgs(comparisons[is_numpy][sign], self, other, NULL);
    const double a = SCALAR(self)->number;
    const double b = PyFloat_CheckExact(other) ? PyFloat_AS_DOUBLE(other) : SCALAR(other)->number;
    int truth = 0;
    switch (sign) {
    case Py_LT: truth = a < b; break;
    case Py_LE: truth = a <= b; break;
    case Py_EQ: truth = a == b; break;
    case Py_NE: truth = a != b; break;
    case Py_GT: truth = a > b; break;
    case Py_GE: truth = a >= b; break;
    }
    if (is_numpy)
        return Py_NewRef(truth ? numpy_true : numpy_false);
    return PyBool_FromLong(truth);
}

static PyObject *call_name; /* "__call__", interned: NumPy passes the same object */

/* Find the op of a ufunc that NumPy calls; NULL if it has none here, or if one of its methods is called. -1 on an error. */
static int find_called_op(PyObject *const *args, ScalarOp **op)
{
    *op = NULL;
    if (ufunc_ops == NULL)
        return 0;
    if (args[1] != call_name &&
        (!PyUnicode_Check(args[1]) || PyUnicode_CompareWithASCIIString(args[1], "__call__") != 0))
        return 0;
    PyObject *found = PyDict_GetItemWithError(ufunc_ops, args[0]);
    if (found != NULL)
        *op = PyCapsule_GetPointer(found, NULL);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *call_ufunc_fallback(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    if (ufunc_fallback == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the recorder does not know NumPy's functions yet");
        return NULL;
    }
    const Py_ssize_t named = keywords == NULL ? 0 : PyTuple_GET_SIZE(keywords);
    PyObject **all = PyMem_Malloc((size_t)(1 + count + named) * sizeof(PyObject *));
    if (all == NULL)
        return PyErr_NoMemory();
    all[0] = self;
    memcpy(all + 1, args, (size_t)(count + named) * sizeof(PyObject *));
    PyObject *result = PyObject_Vectorcall(ufunc_fallback, all, (size_t)(1 + count), keywords);
    PyMem_Free(all);
    return result;
}

/* __array_ufunc__: a ufunc whose op is recorded here, on scalars and literals alone; everything else is Python's. */
static PyObject *apply_ufunc(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    const int has_keywords = keywords != NULL && PyTuple_GET_SIZE(keywords) != 0;
    if (!has_keywords && count > 2) {
        ScalarOp *op;
        if (find_called_op(args, &op) < 0)
            return NULL;
        double literal;
        if (op != NULL && count == 2 + op->arity && IS_SCALAR(args[2]) &&
            (op->arity == 1 || IS_SCALAR(args[3]) || read_literal(args[3], &literal) > 0))
            return op->arity == 1 ? apply_unary(op, args[2], numpy_scalar_class)
                                  : apply_binary(op, args[2], args[3], numpy_scalar_class);
        if (op != NULL && count == 4 && op->arity == 2 && IS_SCALAR(args[3]) && read_literal(args[2], &literal) > 0)
            return apply_binary(op, args[2], args[3], numpy_scalar_class);
    }
    return call_ufunc_fallback(self, args, count, keywords);
}

static PyGetSetDef scalar_getset[] = {
    {"_data", get_data, set_data, "The number.", NULL},
    {"_index", get_index, set_index, "The offset on the tape.", NULL},
    {"data", read_number, assign_number, "The number; a leaf can be given a new one.", NULL},
    {"grad", read_gradient, assign_gradient, "The gradient of the last `backward()`; on leaves, gradients add up.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef scalar_methods[] = {
    {"__array_ufunc__", (PyCFunction)(void (*)(void))apply_ufunc, METH_FASTCALL | METH_KEYWORDS,
     "Apply a ufunc, or its method `reduce`, `accumulate` or `outer`, to values."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot scalar_slots[] = {
    OPERATOR_SLOTS
    {Py_tp_dealloc, scalar_dealloc},
    {Py_tp_traverse, scalar_traverse},
    {Py_tp_clear, scalar_clear},
    {Py_tp_alloc, scalar_alloc},
    {Py_tp_free, scalar_free},
    {Py_tp_richcompare, scalar_compare},
    {Py_tp_getset, scalar_getset},
    {Py_tp_methods, scalar_methods},
    {0, NULL},
};

#include "reverse_sweep.h"

/* ---- Connecting ---- */

static Py_ssize_t find_slot(PyTypeObject *kind, const char *name)
{
    PyObject *descriptor = PyObject_GetAttrString((PyObject *)kind, name);
    if (descriptor == NULL)
        return -1;
    Py_ssize_t offset = -1;
    if (Py_TYPE(descriptor) == &PyMemberDescr_Type && PyDescr_TYPE(descriptor) == kind &&
        ((PyMemberDescrObject *)descriptor)->d_member->type == T_OBJECT_EX)
        offset = ((PyMemberDescrObject *)descriptor)->d_member->offset;
    else
        PyErr_Format(PyExc_TypeError, "%s.%s is not a slot", kind->tp_name, name);
    Py_DECREF(descriptor);
    return offset;
}

static int find_slots(PyTypeObject *kind, const char *const names[], Py_ssize_t *const offsets[])
{
    for (int k = 0; names[k] != NULL; k++) {
        *offsets[k] = find_slot(kind, names[k]);
        if (*offsets[k] < 0)
            return -1;
    }
    return 0;
}

static PyObject *make_class(PyObject *module, const char *name, PyTypeObject *base, PyType_Slot *slots)
{
    PyType_Spec spec = {
        .name = name,
        .basicsize = sizeof(Scalar),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
        .slots = slots,
    };
    PyObject *bases = PyTuple_Pack(1, base);
    if (bases == NULL)
        return NULL;
    PyObject *made = PyType_FromModuleAndSpec(module, &spec, bases);
    Py_DECREF(bases);
    return made;
}

/* make_scalar_classes(Value, name, numpy_name): the two classes of scalars. */
static PyObject *make_scalar_classes(PyObject *module, PyObject *args)
{
    PyTypeObject *base;
    const char *name, *numpy_name;
    if (!PyArg_ParseTuple(args, "O!ss", &PyType_Type, &base, &name, &numpy_name))
        return NULL;
    if (scalar_class != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the classes of scalars were made before");
        return NULL;
    }
    Py_ssize_t data, index, notes, tape;
    const char *const names[] = {"_data", "_index", "_notes", "_tape", NULL};
    Py_ssize_t *const offsets[] = {&data, &index, &notes, &tape};
    if (find_slots(base, names, offsets) < 0)
        return NULL;
    if (data != offsetof(Scalar, data) || index != offsetof(Scalar, offset) || notes != offsetof(Scalar, notes) ||
        tape != offsetof(Scalar, tape) || base->tp_basicsize != offsetof(Scalar, number)) {
        PyErr_SetString(PyExc_TypeError, "the slots of values are not those that the recorder was written for");
        return NULL;
    }
    weakrefs = base->tp_weaklistoffset; /* negative where Python keeps them before the object */
    if (weakrefs == 0 || base->tp_itemsize != 0 || base->tp_dictoffset != 0) {
        PyErr_SetString(PyExc_TypeError, "values need weak references and no dict");
        return NULL;
    }
#if HIDES_SCALARS
    head_bytes = sizeof(CollectorHead) + (weakrefs < 0 ? 2 * sizeof(PyObject *) : 0);
    place_bytes = (head_bytes + sizeof(Scalar) + 15) / 16 * 16;
#endif
    PyObject *scalar = make_class(module, name, base, scalar_slots);
    if (scalar == NULL)
        return NULL;
    PyObject *numpy_scalar = make_class(module, numpy_name, (PyTypeObject *)scalar, scalar_slots);
    if (numpy_scalar == NULL) {
        Py_DECREF(scalar);
        return NULL;
    }
    value_class = (PyTypeObject *)Py_NewRef(base);
    scalar_class = (PyTypeObject *)Py_NewRef(scalar);
    numpy_scalar_class = (PyTypeObject *)Py_NewRef(numpy_scalar);
    return Py_BuildValue("NN", scalar, numpy_scalar);
}

/* Store a new reference to an entry of the dict that `connect` is given. */
static int take(PyObject *given, const char *name, PyTypeObject *kind, PyObject **place)
{
    PyObject *found = PyDict_GetItemString(given, name);
    if (found == NULL || (kind != NULL && !PyObject_TypeCheck(found, kind))) {
        PyErr_Format(PyExc_TypeError, "connect needs %s", name);
        return -1;
    }
    Py_XSETREF(*place, Py_NewRef(found));
    return 0;
}

static int take_helpers(PyObject *given, const char *name, Helpers *place)
{
    PyObject *found = PyDict_GetItemString(given, name);
    if (found == NULL || !PyDict_Check(found)) {
        PyErr_Format(PyExc_TypeError, "connect needs %s", name);
        return -1;
    }
    return take(found, "quietly", NULL, &place->quietly) < 0 || take(found, "apart", NULL, &place->apart) < 0 ||
                   take(found, "general", NULL, &place->general) < 0 ||
                   take(found, "recorded", NULL, &place->recorded) < 0
               ? -1
               : 0;
}

static int take_comparisons(PyObject *given, const char *name, PyObject **place)
{
    PyObject *found = PyDict_GetItemString(given, name);
    if (found == NULL || !PyTuple_Check(found) || PyTuple_GET_SIZE(found) != 6) {
        PyErr_Format(PyExc_TypeError, "connect needs %s", name);
        return -1;
    }
    for (int k = 0; k < 6; k++)
        Py_XSETREF(place[k], Py_NewRef(PyTuple_GET_ITEM(found, k)));
    return 0;
}

#define MAX_OP_CODE 4096
static ScalarOp *ops_by_code[MAX_OP_CODE];

static int take_ops(PyObject *given)
{
    PyObject *ops = PyDict_GetItemString(given, "ops");
    if (ops == NULL || !PyDict_Check(ops)) {
        PyErr_SetString(PyExc_TypeError, "connect needs ops");
        return -1;
    }
    for (Py_ssize_t k = 0; k < OP_COUNT; k++) {
        PyObject *pair = PyDict_GetItemString(ops, OPS[k].name);
        PyObject *op;
        unsigned short code;
        /* An op may have left the table since this was built: nothing refers to it then. */
        if (pair == NULL)
            continue;
        if (!PyArg_ParseTuple(pair, "OH", &op, &code))
            return -1;
        OPS[k].code = code;
        if (code < MAX_OP_CODE)
            ops_by_code[code] = &OPS[k];
        Py_XSETREF(OPS[k].op, Py_NewRef(op));
    }
    return 0;
}

/* connect(given): take what the Python side knows; a dict, so that every entry is named where it is given. */
static PyObject *connect(PyObject *Py_UNUSED(module), PyObject *given)
{
    if (!PyDict_Check(given) || scalar_class == NULL) {
        PyErr_SetString(PyExc_TypeError, "connect needs a dict, and the classes of scalars");
        return NULL;
    }
    if (take(given, "tape_class", &PyType_Type, (PyObject **)&tape_class) < 0 ||
        take(given, "notes_class", &PyType_Type, (PyObject **)&notes_class) < 0 ||
        take(given, "extra_class", &PyType_Type, (PyObject **)&extra_class) < 0 ||
        take(given, "float64", &PyType_Type, (PyObject **)&float64_class) < 0 ||
        take(given, "input_op", NULL, &input_op) < 0 || take(given, "user_kind", NULL, &user_kind) < 0 ||
        take(given, "paused", &PyDict_Type, &paused) < 0 || take(given, "running", &PyDict_Type, &running) < 0 ||
        take(given, "chosen_blocks", &PyDict_Type, &chosen_blocks) < 0 ||
        take(given, "last_lookup", &PyList_Type, &last_lookup) < 0 ||
        take(given, "chosen_convention", NULL, &chosen_convention) < 0 ||
        take(given, "place_one", NULL, &place_one) < 0 || take(given, "place_two", NULL, &place_two) < 0 ||
        take(given, "numpy_true", NULL, &numpy_true) < 0 || take(given, "numpy_false", NULL, &numpy_false) < 0 ||
        take(given, "hypot", NULL, &hypot_function) < 0 || take(given, "current_tape", NULL, &current_tape) < 0 ||
        take(given, "data_property", &PyProperty_Type, &data_property) < 0 ||
        take(given, "grad_property", &PyProperty_Type, &grad_property) < 0 ||
        take_helpers(given, "python_helpers", &helpers[0]) < 0 || take_helpers(given, "numpy_helpers", &helpers[1]) < 0 ||
        take_comparisons(given, "python_comparisons", comparisons[0]) < 0 ||
        take_comparisons(given, "numpy_comparisons", comparisons[1]) < 0 || take_ops(given) < 0)
        return NULL;
    if (!PyType_IsSubtype(float64_class, &PyFloat_Type) || !PyType_IsSubtype(extra_class, &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "float64 is a kind of float, and an extra node of tuple");
        return NULL;
    }
    PyObject *row = PyDict_GetItemString(given, "extra_row");
    if (row == NULL || !PyBytes_Check(row) || PyBytes_GET_SIZE(row) != ROW_SIZE) {
        PyErr_SetString(PyExc_TypeError, "connect needs extra_row");
        return NULL;
    }
    memcpy(extra_row, PyBytes_AS_STRING(row), ROW_SIZE);
    const char *const tape_names[] = {"buffer", "owner", "serial", "extras", "leaves", "kind", "guard", "hooks", NULL};
    Py_ssize_t *const tape_offsets[] = {&tape_buffer, &tape_owner, &tape_serial, &tape_extras,
                                        &tape_leaves, &tape_kind,  &tape_guard,  &tape_hooks};
    const char *const note_names[] = {"constant", "serial", "offset", "home", "grad",
                                      "hooks",    "passes", "name",   "born", NULL};
    Py_ssize_t *const note_offsets[] = {&notes_constant, &notes_serial, &notes_offset, &notes_home, &notes_grad,
                                        &notes_hooks,    &notes_passes, &notes_name,   &notes_born};
    if (find_slots(tape_class, tape_names, tape_offsets) < 0 || find_slots(notes_class, note_names, note_offsets) < 0)
        return NULL;
    PyObject *asks = PyDict_GetItemString(given, "asks_convention");
    PyObject *limit = PyDict_GetItemString(given, "max_tape_bytes");
    PyObject *passes = PyDict_GetItemString(given, "max_passes");
    if (asks == NULL || limit == NULL || passes == NULL) {
        PyErr_SetString(PyExc_TypeError, "connect needs asks_convention, max_tape_bytes and max_passes");
        return NULL;
    }
    asks_convention = PyObject_IsTrue(asks);
    max_tape_bytes = PyLong_AsSsize_t(limit);
    max_passes = PyLong_AsSsize_t(passes);
    if (asks_convention < 0 || PyErr_Occurred())
        return NULL;
    value_class->tp_vectorcall = make_value;
    is_connected = 1;
    Py_RETURN_NONE;
}

static ScalarOp *find_op(const char *name)
{
    for (Py_ssize_t k = 0; k < OP_COUNT; k++)
        if (strcmp(OPS[k].name, name) == 0)
            return &OPS[k];
    PyErr_Format(PyExc_KeyError, "the recorder has no op %s", name);
    return NULL;
}

/* install_method(owner, name, op name, doc): give a class the method of an op of one input. */
static PyObject *install_method(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyTypeObject *owner;
    const char *name, *op_name, *doc;
    if (!PyArg_ParseTuple(args, "O!sss", &PyType_Type, &owner, &name, &op_name, &doc))
        return NULL;
    const ScalarOp *op = find_op(op_name);
    if (op == NULL)
        return NULL;
    if (op->method == NULL) {
        PyErr_Format(PyExc_TypeError, "%s has two inputs", op_name);
        return NULL;
    }
    /* A method of a class lives as long as the class, which is as long as the process. */
    const size_t name_size = strlen(name) + 1;
    const size_t doc_size = strlen(doc) + 1;
    PyMethodDef *definition = PyMem_Malloc(sizeof(PyMethodDef) + name_size + doc_size);
    if (definition == NULL)
        return PyErr_NoMemory();
    char *text = (char *)(definition + 1);
    memcpy(text, name, name_size);
    memcpy(text + name_size, doc, doc_size);
    definition->ml_name = text;
    definition->ml_meth = op->method;
    definition->ml_flags = METH_NOARGS;
    definition->ml_doc = text + name_size;
    PyObject *method = PyDescr_NewMethod(owner, definition);
    if (method == NULL) {
        PyMem_Free(definition);
        return NULL;
    }
    const int failed = PyObject_SetAttrString((PyObject *)owner, name, method);
    Py_DECREF(method);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *apply_function(PyObject *self, PyObject *const *operands, Py_ssize_t count)
{
    ScalarOp *op = PyCapsule_GetPointer(self, NULL);
    if (op == NULL)
        return NULL;
    if (count != op->arity) {
        PyErr_Format(PyExc_TypeError, "%s takes %d operands; got %zd", op->name, op->arity, count);
        return NULL;
    }
    return count == 1 ? apply_unary(op, operands[0], numpy_scalar_class)
                      : apply_binary(op, operands[0], operands[1], numpy_scalar_class);
}

static PyMethodDef apply_definition = {
    "apply_to_scalars", (PyCFunction)(void (*)(void))apply_function, METH_FASTCALL,
    "Apply an op to operands, at least one of them a scalar; the result is NumPy's."};

/* make_function(op name): the function that applies an op to scalars and literals. */
static PyObject *make_function(PyObject *Py_UNUSED(module), PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    ScalarOp *op = text == NULL ? NULL : find_op(text);
    PyObject *capsule = op == NULL ? NULL : PyCapsule_New(op, NULL, NULL);
    if (capsule == NULL)
        return NULL;
    PyObject *function = PyCFunction_New(&apply_definition, capsule);
    Py_DECREF(capsule);
    return function;
}

/* connect_ufuncs(names, fallback): record the op of each name where NumPy calls a ufunc on scalars. */
static PyObject *connect_ufuncs(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *names, *fallback, *ufunc, *name;
    Py_ssize_t position = 0;
    if (!PyArg_ParseTuple(args, "O!O", &PyDict_Type, &names, &fallback))
        return NULL;
    PyObject *ops = PyDict_New();
    while (ops != NULL && PyDict_Next(names, &position, &ufunc, &name)) {
        const char *text = PyUnicode_AsUTF8(name);
        ScalarOp *op = text == NULL ? NULL : find_op(text);
        PyObject *capsule = op == NULL ? NULL : PyCapsule_New(op, NULL, NULL);
        if (capsule == NULL || PyDict_SetItem(ops, ufunc, capsule) < 0)
            Py_CLEAR(ops);
        Py_XDECREF(capsule);
    }
    if (ops == NULL)
        return NULL;
    Py_XSETREF(ufunc_ops, ops);
    Py_XSETREF(ufunc_fallback, Py_NewRef(fallback));
    Py_RETURN_NONE;
}

static PyObject *op_names(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    PyObject *names = PyTuple_New(OP_COUNT);
    for (Py_ssize_t k = 0; names != NULL && k < OP_COUNT; k++) {
        PyObject *name = PyUnicode_FromString(OPS[k].name);
        if (name == NULL)
            Py_CLEAR(names);
        else
            PyTuple_SET_ITEM(names, k, name);
    }
    return names;
}

#include "trace_sites.h"
#include "traced_numbers.h"
#include "recorded_sweep.h"
#include "replay_calls.h"

static PyMethodDef functions[] = {
    {"make_scalar_classes", make_scalar_classes, METH_VARARGS, "Make the two classes of scalars."},
    {"connect", connect, METH_O, "Take what the Python side knows."},
    {"install_method", install_method, METH_VARARGS, "Give a class the method of an op."},
    {"make_function", make_function, METH_O, "Return the function that applies an op to scalars."},
    {"connect_ufuncs", connect_ufuncs, METH_VARARGS, "Record ops where NumPy calls ufuncs on scalars."},
    {"op_names", op_names, METH_NOARGS, "Return the names of the ops that have a body here."},
#if HIDES_SCALARS
    {"watch_collector", watch_collector, METH_VARARGS, "Show all scalars to the collector when a full collection begins."},
#endif
    {"note_latest", note_latest, METH_O, "Note the tape that an op on leaves alone began last."},
    {"deliver", deliver, METH_VARARGS, "Add the gradients of a sweep to the leaves of a tape."},
    {"mark_reached", mark_reached, METH_VARARGS, "Mark the nodes that a sweep visited without leaving a gradient."},
    {"sweep_plainly", (PyCFunction)(void (*)(void))sweep_plainly, METH_FASTCALL,
     "Run a backward pass that is a matter of numbers alone."},
    {"begin_trace", begin_trace, METH_VARARGS, "Record the rows of a trace; returns what to restore when it ends."},
    {"install_traced_operator", install_traced_operator, METH_VARARGS, "Give traced numbers an operator."},
    {"install_traced_comparison", install_traced_comparison, METH_VARARGS, "Give traced numbers a comparison."},
    {"install_traced_truth", install_traced_truth, METH_O, "Note certificates where Python tests conditions."},
    {"install_traced_method", install_traced_method, METH_VARARGS, "Give traced numbers a method."},
    {"install_traced_ufuncs", install_traced_ufuncs, METH_O, "Record ops where NumPy calls ufuncs on traced numbers."},
    {"apply_traced_op", (PyCFunction)(void (*)(void))apply_traced_op, METH_FASTCALL, "Record an op of traced numbers."},
    {"is_plain_trace", is_plain_on, METH_O, "Return whether no block changes how a trace records on a tape."},
    {"connect_traces", connect_traces, METH_O, "Take what the Python side knows about traced numbers."},
    {"record_array_op", (PyCFunction)(void (*)(void))record_array_node, METH_FASTCALL, "Record an op on traced arrays."},
    {"connect_arrays", connect_arrays, METH_O, "Take what the Python side knows about arrays."},
    {"connect_calls", connect_calls, METH_O, "Take what the Python side knows about calls of compiled functions."},
    {"mark_needed", mark_needed, METH_VARARGS, "Mark the rows that marked rows depend on."},
    {"connect_rules", connect_rules, METH_O, "Take the function that is asked for the rules of an op."},
    {"mark_active", mark_active, METH_VARARGS, "Mark the nodes that a root is behind."},
    {"sweep_values", sweep_values, METH_VARARGS, "Run a sweep that is recorded."},
    {"push_rows", push_rows, METH_VARARGS, "Pass on the tangents of the nodes of a span, first one first."},
    {"pull_rows", pull_rows, METH_VARARGS, "Pass on the gradients of the nodes of a span, last one first."},
    {NULL, NULL, 0, NULL},
};

static int is_loaded;

static int execute(PyObject *module)
{
    if (is_loaded) {
        PyErr_SetString(PyExc_ImportError, "the recorder serves one interpreter of a process");
        return -1;
    }
    gradient_list_class = (PyTypeObject *)PyType_FromModuleAndSpec(module, &gradients_spec, NULL);
    if (gradient_list_class == NULL || PyModule_AddObjectRef(module, "GradientList", (PyObject *)gradient_list_class) < 0)
        return -1;
    sites_class = (PyTypeObject *)PyType_FromModuleAndSpec(module, &sites_spec, NULL);
    if (sites_class == NULL || PyModule_AddObjectRef(module, "TraceSites", (PyObject *)sites_class) < 0)
        return -1;
    traced_method_class = (PyTypeObject *)PyType_FromModuleAndSpec(module, &traced_method_spec, NULL);
    call_name = PyUnicode_InternFromString("__call__");
    if (traced_method_class == NULL || call_name == NULL || add_call_classes(module) < 0)
        return -1;
#if HIDES_SCALARS
    if (begin_watching(module) < 0)
        return -1;
#endif
    if (PyModule_AddStringConstant(module, "FINGERPRINT", RECORDER_FINGERPRINT) < 0)
        return -1;
    is_loaded = 1;
    return 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, execute},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "wiregrad._recorder",
    .m_doc = "The recorder of real numbers in C.",
    .m_methods = functions,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__recorder(void)
{
    return PyModuleDef_Init(&definition);
}
