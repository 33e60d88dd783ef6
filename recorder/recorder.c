/* The recorder of real numbers in C: the classes of scalars, the rows of their tape, and the reverse sweep.

It does what `wiregrad.frontends.recording.scalar` and `tape` do in Python, with the same bits, and takes the fast path
only where they do: everything else (other operands, blocks such as no_grad, numbers where Python raises) is handed to
the Python functions that `connect` was given. Ops are not named here: their bodies are in op_bodies.h, which is
written from the op table.

Values, tapes and notes are the Python classes with __slots__; `connect` reads where their slots are. A scalar adds two
fields to a value, its number and its offset on the tape, so that neither needs a Python object. */

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

typedef struct {
    const char *name;
    int arity;
    int has_kinks;
    OpBody of_values, of_literal_second, of_literal_first;
    PyCFunction method;
    PyObject *op;
    uint16_t code;
} ScalarOp;

static PyObject *apply_unary(ScalarOp *op, PyObject *self, PyTypeObject *kind);
static PyObject *apply_binary(ScalarOp *op, PyObject *one, PyObject *two, PyTypeObject *kind);

#include "op_bodies.h"

#define OP_COUNT ((Py_ssize_t)(sizeof(OPS) / sizeof(OPS[0])))

/* ---- What the Python side gave to `connect` ---- */

#define ROW_SIZE 34
enum { LITERAL = -1, EXTRA = -2, BLOCKED = -3 };

typedef struct {
    PyObject *quietly, *apart, *general, *recorded;
} Helpers;

static PyTypeObject *scalar_class, *numpy_scalar_class, *tape_class, *notes_class, *extra_class, *float64_class;
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

static Py_ssize_t value_data, value_notes, value_tape, scalar_fields, weakrefs;
static Py_ssize_t tape_buffer, tape_owner, tape_serial, tape_extras, tape_leaves, tape_kind, tape_guard;
static Py_ssize_t notes_constant, notes_serial, notes_offset, notes_home, notes_grad, notes_hooks, notes_passes;

#define SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))

typedef struct Link {
    struct Link *before, *after;
} Link;

typedef struct {
    double number;
    Py_ssize_t offset;
    Link link; /* in `untracked`; both NULL for a scalar that the collector knows */
} ScalarFields;

#define FIELDS(object) ((ScalarFields *)((char *)(object) + scalar_fields))
#define IS_SCALAR(object) (Py_TYPE(object) == scalar_class || Py_TYPE(object) == numpy_scalar_class)

/* ---- The classes of scalars ---- */

/* A collector that walks over every number of a long recording again and again would take longer than recording it. So
   the scalars that ops make are hidden from it, and shown to it at the beginning of a full collection, which is where
   a cycle through one of them (its tape has a hook that refers to it) is found. */
#if PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED)
#define HIDES_SCALARS 1
#else
#define HIDES_SCALARS 0 /* no collection is full there, unless it is asked for */
#endif
#define FULL_COLLECTION 2

static Link untracked = {&untracked, &untracked};

static inline void unlink_scalar(Link *link)
{
    link->before->after = link->after;
    link->after->before = link->before;
    link->before = link->after = NULL;
}

static PyObject *watch_collector(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *phase;
    PyObject *info;
    if (!PyArg_ParseTuple(args, "sO!", &phase, &PyDict_Type, &info))
        return NULL;
    PyObject *generation = PyDict_GetItemString(info, "generation");
    if (strcmp(phase, "start") == 0 && generation != NULL && PyLong_AsLong(generation) == FULL_COLLECTION) {
        while (untracked.after != &untracked) {
            Link *link = untracked.after;
            unlink_scalar(link);
            PyObject_GC_Track((char *)link - offsetof(ScalarFields, link) - scalar_fields);
        }
    }
    Py_RETURN_NONE;
}

#define MAX_FREE 1024
static PyObject *free_scalars[MAX_FREE];
static int free_count;

static int scalar_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(SLOT(self, value_notes));
    Py_VISIT(SLOT(self, value_tape));
    return 0; /* the data is a float */
}

static int scalar_clear(PyObject *self)
{
    Py_CLEAR(SLOT(self, value_notes));
    Py_CLEAR(SLOT(self, value_tape));
    return 0;
}

static void scalar_dealloc(PyObject *self)
{
    PyTypeObject *kind = Py_TYPE(self);
    Link *link = &FIELDS(self)->link;
    if (link->before != NULL)
        unlink_scalar(link);
    else
        PyObject_GC_UnTrack(self);
    if (SLOT(self, weakrefs) != NULL)
        PyObject_ClearWeakRefs(self);
    scalar_clear(self);
    Py_CLEAR(SLOT(self, value_data));
    if (free_count < MAX_FREE && (kind == scalar_class || kind == numpy_scalar_class)) {
        FIELDS(self)->number = 0.0;
        FIELDS(self)->offset = 0;
        free_scalars[free_count++] = self;
    }
    else
        PyObject_GC_Del(self);
    Py_DECREF(kind);
}

static PyObject *new_scalar(PyTypeObject *kind)
{
    /* A freed scalar has nothing in its slots, so there is nothing to clear. */
    if (free_count > 0 && (kind == scalar_class || kind == numpy_scalar_class))
        return PyObject_Init(free_scalars[--free_count], kind);
    PyObject *self = PyObject_GC_New(PyObject, kind);
    if (self != NULL)
        memset((char *)self + sizeof(PyObject), 0, (size_t)kind->tp_basicsize - sizeof(PyObject));
    return self;
}

static PyObject *scalar_alloc(PyTypeObject *kind, Py_ssize_t Py_UNUSED(items))
{
    PyObject *self = new_scalar(kind);
    if (self != NULL)
        PyObject_GC_Track(self);
    return self;
}

static PyObject *get_data(PyObject *self, void *Py_UNUSED(closure))
{
    /* The number as an object is made when it is first read, and kept: a caller may tell numbers apart by identity. */
    PyObject *data = SLOT(self, value_data);
    if (data == NULL)
        data = SLOT(self, value_data) = PyFloat_FromDouble(FIELDS(self)->number);
    return Py_XNewRef(data);
}

static int set_data(PyObject *self, PyObject *data, void *Py_UNUSED(closure))
{
    if (data == NULL || !PyFloat_CheckExact(data)) {
        PyErr_SetString(PyExc_TypeError, "the data of a scalar is a float");
        return -1;
    }
    FIELDS(self)->number = PyFloat_AS_DOUBLE(data);
    Py_XSETREF(SLOT(self, value_data), Py_NewRef(data));
    return 0;
}

static PyObject *get_index(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromSsize_t(FIELDS(self)->offset);
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
    FIELDS(self)->offset = offset;
    return 0;
}

static PyGetSetDef scalar_getset[] = {
    {"_data", get_data, set_data, "The number.", NULL},
    {"_index", get_index, set_index, "The offset on the tape.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

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

/* The owner of the tape that was last used, and the thread that it stands for. */
static PyObject *known_owner;
static unsigned long known_ident;

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
    return 1;
}

static inline int is_own_tape(PyObject *tape)
{
    if (tape == NULL || Py_TYPE(tape) != tape_class)
        return 0;
    PyObject *owner = SLOT(tape, tape_owner);
    if ((owner == NULL || owner != known_owner) && !learn_owner(owner))
        return 0;
    return known_ident == PyThread_get_thread_ident();
}

/* Make room for a row at the end of a tape and return it; NULL on an error. */
static char *grow_tape(PyObject *tape, Py_ssize_t *at)
{
    PyObject *buffer = SLOT(tape, tape_buffer);
    if (buffer == NULL || !PyByteArray_CheckExact(buffer)) {
        PyErr_SetString(PyExc_SystemError, "a tape has no rows");
        return NULL;
    }
    const Py_ssize_t offset = PyByteArray_GET_SIZE(buffer);
    PyByteArrayObject *bytes = (PyByteArrayObject *)buffer;
    const int has_room = offset + ROW_SIZE < bytes->ob_alloc;
    if (has_room && bytes->ob_exports == 0 && bytes->ob_start == bytes->ob_bytes) {
        /* What PyByteArray_Resize does where there is room. */
        Py_SET_SIZE(bytes, offset + ROW_SIZE);
        bytes->ob_start[offset + ROW_SIZE] = 0;
    }
    else if ((!has_room && PyByteArray_Resize(buffer, offset + offset / 2 + 64 * ROW_SIZE) < 0) ||
             PyByteArray_Resize(buffer, offset + ROW_SIZE) < 0)
        return NULL;
    *at = offset;
    return PyByteArray_AS_STRING(buffer) + offset;
}

/* Append a row; returns its offset, or -1 on an error. */
static Py_ssize_t append_row(PyObject *tape, const Outcome *outcome, Py_ssize_t first, Py_ssize_t second, uint16_t code)
{
    Py_ssize_t offset = -1;
    char *row = grow_tape(tape, &offset);
    if (row == NULL)
        return -1;
    const int32_t a = (int32_t)first;
    const int32_t b = (int32_t)second;
    memcpy(row, outcome, 3 * sizeof(double));
    memcpy(row + 24, &a, 4);
    memcpy(row + 28, &b, 4);
    memcpy(row + 32, &code, 2);
    return offset;
}

/* Append a row for a node and return its value. Takes one reference to the tape. */
static PyObject *make_node(PyTypeObject *kind, PyObject *tape, const Outcome *outcome, Py_ssize_t first,
                           Py_ssize_t second, uint16_t code)
{
    if (outcome->blocked & 1)
        first = BLOCKED - first;
    if (outcome->blocked & 2)
        second = BLOCKED - second;
    const Py_ssize_t offset = append_row(tape, outcome, first, second, code);
    PyObject *result = offset < 0 ? NULL : new_scalar(kind);
    if (result == NULL) {
        Py_DECREF(tape);
        return NULL;
    }
    SLOT(result, value_tape) = tape;
    ScalarFields *fields = FIELDS(result);
    fields->number = outcome->y;
    fields->offset = offset;
#if HIDES_SCALARS
    fields->link.before = &untracked;
    fields->link.after = untracked.after;
    untracked.after->before = &fields->link;
    untracked.after = &fields->link;
#else
    PyObject_GC_Track(result);
#endif
    return result;
}

static PyObject *notes_of(PyObject *leaf)
{
    PyObject *notes = SLOT(leaf, value_notes);
    return notes != NULL && PyObject_TypeCheck(notes, notes_class) ? notes : NULL;
}

/* Whether this thread may be running a transform, whose tape is then the one to record on. */
static int is_running(void)
{
    if (PyDict_GET_SIZE(running) == 0)
        return 0;
    PyObject *ident = PyLong_FromUnsignedLong(PyThread_get_thread_ident());
    const int found = ident == NULL ? -1 : PyDict_Contains(running, ident);
    Py_XDECREF(ident);
    if (found < 0)
        PyErr_Clear();
    return found != 0;
}

/* The offset of a leaf on a tape where it was used before; -1 if it was not. */
static Py_ssize_t find_leaf(PyObject *leaf, PyObject *tape)
{
    PyObject *notes = notes_of(leaf);
    if (notes == NULL || SLOT(notes, notes_constant) != Py_False)
        return -1;
    PyObject *serial = SLOT(notes, notes_serial);
    PyObject *wanted = SLOT(tape, tape_serial);
    PyObject *offset = SLOT(notes, notes_offset);
    if (serial == NULL || wanted == NULL || offset == NULL)
        return -1;
    if (serial != wanted) {
        int overflow = 0;
        const long long number = PyLong_AsLongLongAndOverflow(serial, &overflow);
        if (overflow || number != PyLong_AsLongLongAndOverflow(wanted, &overflow) || overflow)
            return -1;
    }
    return PyLong_AsSsize_t(offset);
}

/* Append a leaf to a tape of the user's own values as an input, as `place_on_tape` does; -1 if that is not possible. */
static Py_ssize_t add_leaf(PyObject *leaf, PyObject *tape)
{
    PyObject *notes = notes_of(leaf);
    PyObject *extras = SLOT(tape, tape_extras);
    PyObject *leaves = SLOT(tape, tape_leaves);
    PyObject *serial = SLOT(tape, tape_serial);
    if (notes == NULL || SLOT(notes, notes_constant) != Py_False || SLOT(tape, tape_kind) != user_kind ||
        SLOT(tape, tape_guard) != Py_None || extras == NULL || !PyDict_CheckExact(extras) || leaves == NULL ||
        !PyDict_CheckExact(leaves) || serial == NULL)
        return -1;
    PyObject *data = get_data(leaf, NULL);
    PyObject *home = PyWeakref_NewRef(tape, NULL);
    PyObject *extra = extra_class->tp_alloc(extra_class, 5);
    PyObject *key = NULL;
    Py_ssize_t offset = -1;
    if (data != NULL && home != NULL && extra != NULL) {
        PyTuple_SET_ITEM(extra, 0, Py_NewRef(input_op));
        PyTuple_SET_ITEM(extra, 1, PyTuple_New(0));
        PyTuple_SET_ITEM(extra, 2, PyTuple_New(0));
        PyTuple_SET_ITEM(extra, 3, Py_NewRef(data));
        PyTuple_SET_ITEM(extra, 4, PyLong_FromLong(0));
        char *row = grow_tape(tape, &offset);
        key = row == NULL ? NULL : PyLong_FromSsize_t(offset);
        if (row != NULL)
            memcpy(row, extra_row, ROW_SIZE);
        if (key == NULL || PyDict_SetItem(extras, key, extra) < 0 || PyDict_SetItem(leaves, key, leaf) < 0)
            offset = -1;
        else {
            Py_XSETREF(SLOT(notes, notes_offset), Py_NewRef(key));
            Py_XSETREF(SLOT(notes, notes_serial), Py_NewRef(serial));
            Py_XSETREF(SLOT(notes, notes_home), Py_NewRef(home));
        }
    }
    Py_XDECREF(key);
    Py_XDECREF(data);
    Py_XDECREF(home);
    Py_XDECREF(extra);
    if (offset < 0)
        PyErr_Clear();
    return offset;
}

/* The offset of a leaf on a tape, where it is added if it is not there yet; -1 if Python has to do that. */
static Py_ssize_t place_leaf(PyObject *leaf, PyObject *tape)
{
    const Py_ssize_t offset = find_leaf(leaf, tape);
    return offset >= 0 ? offset : add_leaf(leaf, tape);
}

/* The tape where a leaf was last used, if more can be recorded there; a borrowed reference. */
static PyObject *find_home(PyObject *leaf)
{
    PyObject *notes = notes_of(leaf);
    PyObject *home = notes == NULL ? NULL : SLOT(notes, notes_home);
    if (home == NULL || !PyWeakref_CheckRef(home))
        return NULL;
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *tape = NULL;
    if (PyWeakref_GetRef(home, &tape) <= 0)
        return NULL;
    Py_DECREF(tape); /* somebody else holds it: only we run now */
#else
    PyObject *tape = PyWeakref_GET_OBJECT(home);
#endif
    if (!is_own_tape(tape))
        return NULL;
    PyObject *buffer = SLOT(tape, tape_buffer);
    return buffer != NULL && PyByteArray_CheckExact(buffer) && PyByteArray_GET_SIZE(buffer) <= max_tape_bytes ? tape : NULL;
}

static PyObject *tape_of(PyObject *value)
{
    PyObject *tape = SLOT(value, value_tape);
    return tape == Py_None ? NULL : tape;
}

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
            *offset = FIELDS(value)->offset;
            return Py_NewRef(tape);
        }
        if (tape == NULL && !is_running()) {
            PyObject *home = find_home(value);
            *offset = home == NULL ? -1 : place_leaf(value, home);
            if (*offset >= 0)
                return Py_NewRef(home);
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
                *first = FIELDS(one)->offset;
                *second = FIELDS(two)->offset;
                return Py_NewRef(tape);
            }
        }
        else if ((tape == NULL) != (other == NULL) && !is_running()) {
            PyObject *chosen = tape != NULL ? tape : other;
            if (is_own_tape(chosen)) {
                *first = tape == NULL ? place_leaf(one, chosen) : FIELDS(one)->offset;
                *second = other == NULL ? place_leaf(two, chosen) : FIELDS(two)->offset;
                if (*first >= 0 && *second >= 0)
                    return Py_NewRef(chosen);
            }
        }
        else if (tape == NULL && other == NULL && !is_running()) {
            PyObject *home = find_home(one);
            if (home == NULL)
                home = find_home(two);
            if (home != NULL) {
                *first = place_leaf(one, home);
                *second = *first < 0 ? -1 : place_leaf(two, home);
                if (*first >= 0 && *second >= 0)
                    return Py_NewRef(home);
            }
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
    if (diverted || op->of_values(FIELDS(self)->number, 0.0, &outcome))
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
static int read_literal(PyObject *operand, double *number)
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
    const double number = FIELDS(self)->number;
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
    if (diverted || op->of_values(FIELDS(one)->number, FIELDS(two)->number, &outcome))
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

static PyObject *scalar_compare(PyObject *self, PyObject *other, int sign)
{
    const int is_numpy = Py_TYPE(self) == numpy_scalar_class;
    const int is_known = PyFloat_CheckExact(other) || Py_TYPE(other) == scalar_class ||
                         (is_numpy && Py_TYPE(other) == numpy_scalar_class);
    if (!is_known || (!is_numpy && PyDict_GET_SIZE(paused) != 0) || (sign == Py_EQ && PyList_GET_SIZE(last_lookup) != 0))
        return PyObject_CallFunctionObjArgs(comparisons[is_numpy][sign], self, other, NULL);
    const double a = FIELDS(self)->number;
    const double b = PyFloat_CheckExact(other) ? PyFloat_AS_DOUBLE(other) : FIELDS(other)->number;
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

/* __array_ufunc__: a ufunc whose op is recorded here, on scalars and literals alone; everything else is Python's. */
static PyObject *apply_ufunc(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    const int has_keywords = keywords != NULL && PyTuple_GET_SIZE(keywords) != 0;
    if (!has_keywords && count > 2 && ufunc_ops != NULL && PyUnicode_Check(args[1]) &&
        PyUnicode_CompareWithASCIIString(args[1], "__call__") == 0) {
        PyObject *found = PyDict_GetItemWithError(ufunc_ops, args[0]);
        if (found == NULL && PyErr_Occurred())
            return NULL;
        ScalarOp *op = found == NULL ? NULL : PyCapsule_GetPointer(found, NULL);
        double literal;
        if (op != NULL && count == 2 + op->arity && IS_SCALAR(args[2]) &&
            (op->arity == 1 || IS_SCALAR(args[3]) || read_literal(args[3], &literal) > 0))
            return op->arity == 1 ? apply_unary(op, args[2], numpy_scalar_class)
                                  : apply_binary(op, args[2], args[3], numpy_scalar_class);
        if (op != NULL && count == 4 && op->arity == 2 && IS_SCALAR(args[3]) && read_literal(args[2], &literal) > 0)
            return apply_binary(op, args[2], args[3], numpy_scalar_class);
    }
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
        .basicsize = (int)(scalar_fields + (Py_ssize_t)sizeof(ScalarFields)),
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
    const char *const names[] = {"_data", "_notes", "_tape", NULL};
    Py_ssize_t *const offsets[] = {&value_data, &value_notes, &value_tape};
    if (find_slots(base, names, offsets) < 0)
        return NULL;
    weakrefs = base->tp_weaklistoffset; /* negative where Python keeps them before the object */
    if (weakrefs == 0 || base->tp_itemsize != 0 || base->tp_dictoffset != 0) {
        PyErr_SetString(PyExc_TypeError, "values need weak references and no dict");
        return NULL;
    }
    scalar_fields = base->tp_basicsize;
    PyObject *scalar = make_class(module, name, base, scalar_slots);
    if (scalar == NULL)
        return NULL;
    PyObject *numpy_scalar = make_class(module, numpy_name, (PyTypeObject *)scalar, scalar_slots);
    if (numpy_scalar == NULL) {
        Py_DECREF(scalar);
        return NULL;
    }
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
        take(given, "hypot", NULL, &hypot_function) < 0 ||
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
    const char *const tape_names[] = {"buffer", "owner", "serial", "extras", "leaves", "kind", "guard", NULL};
    Py_ssize_t *const tape_offsets[] = {&tape_buffer, &tape_owner, &tape_serial, &tape_extras,
                                        &tape_leaves, &tape_kind,  &tape_guard};
    const char *const note_names[] = {"constant", "serial", "offset", "home", "grad", "hooks", "passes", NULL};
    Py_ssize_t *const note_offsets[] = {&notes_constant, &notes_serial, &notes_offset, &notes_home,
                                        &notes_grad,     &notes_hooks,  &notes_passes};
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

static PyMethodDef functions[] = {
    {"make_scalar_classes", make_scalar_classes, METH_VARARGS, "Make the two classes of scalars."},
    {"connect", connect, METH_O, "Take what the Python side knows."},
    {"install_method", install_method, METH_VARARGS, "Give a class the method of an op."},
    {"make_function", make_function, METH_O, "Return the function that applies an op to scalars."},
    {"connect_ufuncs", connect_ufuncs, METH_VARARGS, "Record ops where NumPy calls ufuncs on scalars."},
    {"op_names", op_names, METH_NOARGS, "Return the names of the ops that have a body here."},
    {"watch_collector", watch_collector, METH_VARARGS, "Show all scalars to the collector when a full collection begins."},
    {"deliver", deliver, METH_VARARGS, "Add the gradients of a sweep to the leaves of a tape."},
    {"mark_reached", mark_reached, METH_VARARGS, "Mark the nodes that a sweep visited without leaving a gradient."},
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
#if HIDES_SCALARS
    PyObject *collector = PyImport_ImportModule("gc");
    PyObject *callbacks = collector == NULL ? NULL : PyObject_GetAttrString(collector, "callbacks");
    PyObject *watcher = callbacks == NULL ? NULL : PyObject_GetAttrString(module, "watch_collector");
    const int failed = watcher == NULL || !PyList_Check(callbacks) || PyList_Append(callbacks, watcher) < 0;
    Py_XDECREF(watcher);
    Py_XDECREF(callbacks);
    Py_XDECREF(collector);
    if (failed)
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
