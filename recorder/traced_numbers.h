/* The operators and methods of traced numbers, which append rows to the tape of the trace.

A traced number is an instance of a Python class with __slots__ whose data is an np.float64. Its operators append a row
where nothing else is to be done; everything else (arrays, blocks such as no_grad, numbers that are not finite) is left
to the Python method that the operator replaced. */

static PyTypeObject *traced_class, *traced_python_class;       /* of NumPy's numbers, and of Python's */
static PyTypeObject *condition_class, *python_condition_class; /* of NumPy's conditions, and of Python's */
static PyTypeObject *certificate_class;
static Py_ssize_t condition_bound; /* the slot of the bound of Python's conditions */
static PyObject *recording_state, *innermost_name;
static PyObject *error_settings; /* NumPy's context variable */
static PyObject *forwards[sizeof(OPS) / sizeof(OPS[0])]; /* NumPy's function, where C may round otherwise */
static PyObject *traced_ops;                             /* dict: an op to the capsule of its ScalarOp */

/* The trace that runs; only its own tape is recorded on here. What is not there is None, or NULL before the first trace. */
static struct {
    PyObject *tape, *sites, *own_block, *settings;
    PyObject *certificates; /* the list of its certificates */
    PyObject *scan;         /* its search for tests of identity, which a recorded condition does not pass */
} running_trace;

#define TRACE_FIELDS ((PyObject **)&running_trace)
#define TRACE_FIELD_COUNT ((Py_ssize_t)(sizeof(running_trace) / sizeof(PyObject *)))

static inline TraceSites *running_sites(void)
{
    return (TraceSites *)running_trace.sites;
}

static inline int is_tracing(void)
{
    return running_trace.tape != NULL && running_trace.tape != Py_None;
}

/* begin_trace(tape, sites, own_block, settings, certificates, scan): record on a tape; returns the arguments of the call
   that ends this. `settings` are NumPy's error settings under which C computes what NumPy does. */
static PyObject *begin_trace(PyObject *Py_UNUSED(module), PyObject *args)
{
    if (PyTuple_GET_SIZE(args) != TRACE_FIELD_COUNT) {
        PyErr_Format(PyExc_TypeError, "begin_trace takes %zd arguments", TRACE_FIELD_COUNT);
        return NULL;
    }
    PyObject *sites = PyTuple_GET_ITEM(args, 1), *certificates = PyTuple_GET_ITEM(args, 4);
    if ((sites != Py_None && Py_TYPE(sites) != sites_class) ||
        (certificates != Py_None && !PyList_CheckExact(certificates))) {
        PyErr_SetString(PyExc_TypeError, "begin_trace needs the sites and the list of certificates of the trace");
        return NULL;
    }
    PyObject *before = PyTuple_New(TRACE_FIELD_COUNT);
    for (Py_ssize_t k = 0; before != NULL && k < TRACE_FIELD_COUNT; k++) {
        PyObject *field = TRACE_FIELDS[k];
        PyTuple_SET_ITEM(before, k, field == NULL ? Py_NewRef(Py_None) : field);
        TRACE_FIELDS[k] = Py_NewRef(PyTuple_GET_ITEM(args, k));
    }
    return before;
}

static inline int is_traced_number(PyObject *value)
{
    if (Py_TYPE(value) != traced_class && Py_TYPE(value) != traced_python_class)
        return 0;
    PyObject *data = SCALAR(value)->data;
    return SCALAR(value)->tape == running_trace.tape && data != NULL && Py_TYPE(data) == float64_class;
}

/* Whether a row on the tape of the running trace is all that an op needs now; -1 on an error. */
static int is_plain_trace(void)
{
    PyObject *tape = running_trace.tape;
    if (!is_tracing() || running_trace.sites == Py_None || running_sites()->known_calls == NULL || !is_own_tape(tape))
        return 0;
    const Py_ssize_t opened = PyDict_GET_SIZE(paused);
    if (opened > 1 || (opened == 1 && (running_trace.own_block == Py_None ||
                                       PyDict_GetItemWithError(paused, running_trace.own_block) == NULL)))
        return PyErr_Occurred() ? -1 : 0;
    PyObject *innermost = PyObject_GetAttr(recording_state, innermost_name);
    if (innermost == NULL)
        return -1;
    Py_DECREF(innermost);
    if (innermost != tape)
        return 0;
    PyObject *settings = NULL;
    if (PyContextVar_Get(error_settings, NULL, &settings) < 0)
        return -1;
    const int is_same = settings == running_trace.settings;
    Py_XDECREF(settings);
    return is_same && settings != NULL;
}

/* is_plain(tape): whether a node on a tape is all that an op of the running trace needs now. */
static PyObject *is_plain_on(PyObject *Py_UNUSED(module), PyObject *tape)
{
    const int is_plain = tape == running_trace.tape ? is_plain_trace() : 0;
    return is_plain < 0 ? NULL : PyBool_FromLong(is_plain);
}

static Py_ssize_t offset_of(PyObject *value)
{
    PyObject *index = SLOT(value, value_index);
    return index == NULL ? -1 : PyLong_AsSsize_t(index);
}

static PyObject *make_float64(double number)
{
    PyObject *made = float64_class->tp_alloc(float64_class, 0);
    if (made != NULL)
        ((PyFloatObject *)made)->ob_fval = number;
    return made;
}

/* Compute an op with NumPy: 1 if the result is a float64, 0 if not, -1 on an error. */
static int compute_forward(PyObject *forward, int arity, const double *numbers, double *y)
{
    PyObject *operands[2] = {NULL, NULL};
    PyObject *result = NULL;
    operands[0] = make_float64(numbers[0]);
    operands[1] = arity == 2 && operands[0] != NULL ? make_float64(numbers[1]) : NULL;
    if (operands[arity - 1] != NULL)
        result = PyObject_Vectorcall(forward, operands, (size_t)arity, NULL);
    Py_XDECREF(operands[0]);
    Py_XDECREF(operands[1]);
    if (result == NULL)
        return -1;
    const int is_float = Py_TYPE(result) == float64_class;
    if (is_float)
        *y = PyFloat_AS_DOUBLE(result);
    Py_DECREF(result);
    return is_float;
}

typedef struct {
    double number;
    Py_ssize_t offset; /* LITERAL for a plain number */
    int is_python;
} TracedOperand;

/* Read an operand of a traced op: 1 if a row can hold it, else 0. */
static int read_operand(PyObject *operand, TracedOperand *read)
{
    if (is_traced_number(operand)) {
        read->number = PyFloat_AS_DOUBLE(SCALAR(operand)->data);
        read->offset = offset_of(operand);
        read->is_python = Py_TYPE(operand) == traced_python_class;
        return read->offset >= 0 && fits_row(read->offset);
    }
    const int found = read_literal(operand, &read->number);
    read->offset = LITERAL;
    read->is_python = found == 1;
    return found > 0;
}

/* Apply an op to traced numbers and literals; NULL without an error if the Python path has to do it. */
static PyObject *apply_traced(ScalarOp *op, PyObject *one, PyObject *two, int stays_python)
{
    if (!is_tracing())
        return NULL;
    TracedOperand a, b = {0.0, LITERAL, 1};
    if (!read_operand(one, &a) || (two != NULL && !read_operand(two, &b)) || (a.offset < 0 && b.offset < 0) ||
        op->op == NULL || (op->arity == 2) != (two != NULL))
        return NULL;
    const int is_plain = is_plain_trace();
    const int diverted = is_plain <= 0 ? 0 : diverts(op);
    if (is_plain <= 0 || diverted)
        return NULL;
    Outcome outcome;
    const OpBody body = a.offset < 0 ? op->of_literal_first : b.offset < 0 && two != NULL ? op->of_literal_second : op->of_values;
    if (body(a.number, b.number, &outcome) || !isfinite(outcome.y))
        return NULL;
    PyObject *forward = forwards[op - OPS];
    if (forward != NULL) {
        const double numbers[2] = {a.number, b.number};
        if (compute_forward(forward, op->arity, numbers, &outcome.y) <= 0 || !isfinite(outcome.y))
            return NULL;
    }
    PyObject *tape = running_trace.tape;
    PyTypeObject *kind = stays_python && a.is_python && b.is_python ? traced_python_class : traced_class;
    PyObject *value = kind->tp_alloc(kind, 0);
    PyObject *data = value == NULL ? NULL : make_float64(outcome.y);
    PyByteArrayObject *rows = data == NULL ? NULL : grow_tape(tape);
    const Py_ssize_t offset = rows == NULL ? -1 : Py_SIZE(rows);
    PyObject *index = offset < 0 ? NULL : PyLong_FromSsize_t(offset);
    if (index != NULL)
        append_row(rows, &outcome, a.offset, b.offset, op->code);
    if (index == NULL || note_row(running_sites(), offset) < 0) {
        Py_XDECREF(index);
        Py_XDECREF(data);
        Py_XDECREF(value);
        return NULL;
    }
    SCALAR(value)->data = data;
    SLOT(value, value_index) = index;
    SCALAR(value)->tape = Py_NewRef(tape);
    return value;
}

/* Give a class a method that is written in C; -1 on an error. */
static int replace_method(PyTypeObject *owner, const char *name, PyCFunction function, int flags)
{
    const size_t size = strlen(name) + 1;
    /* A method of a class lives as long as the class, which is as long as the process. */
    PyMethodDef *definition = PyMem_Calloc(1, sizeof(PyMethodDef) + size);
    if (definition == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(definition + 1, name, size);
    definition->ml_name = (const char *)(definition + 1);
    definition->ml_meth = function;
    definition->ml_flags = flags;
    PyObject *method = PyDescr_NewMethod(owner, definition);
    if (method == NULL) {
        PyMem_Free(definition);
        return -1;
    }
    const int failed = PyObject_SetAttrString((PyObject *)owner, name, method) < 0;
    Py_DECREF(method);
    return failed ? -1 : 0;
}

#include "traced_arrays.h"

/* An operator of a class of traced numbers: its op, and the Python method for everything else. */
typedef struct {
    ScalarOp *op;
    PyObject *otherwise;
    int is_reflected;
} TracedOperator;

#define TRACED_OPERATORS 64
static TracedOperator traced_operators[TRACED_OPERATORS];
static int traced_operator_count;

/* Apply an op to traced numbers, arrays and literals; NULL without an error if the Python path has to do it. */
static PyObject *apply_traced_any(ScalarOp *op, PyObject *one, PyObject *two, int stays_python)
{
    const int has_array = Py_TYPE(one) == value_class || (two != NULL && Py_TYPE(two) == value_class);
    if (!has_array)
        return apply_traced(op, one, two, stays_python);
    PyObject *operands[2] = {one, two};
    return op->op == NULL ? NULL : record_array_op(op->op, operands, two == NULL ? 1 : 2);
}

static PyObject *apply_traced_operator(int number, PyObject *self, PyObject *other)
{
    const TracedOperator *made = &traced_operators[number];
    PyObject *one = made->is_reflected ? other : self;
    PyObject *two = made->is_reflected ? self : other;
    PyObject *result = apply_traced_any(made->op, one, two, 1);
    if (result != NULL || PyErr_Occurred())
        return result;
    PyObject *operands[2] = {self, other};
    return PyObject_Vectorcall(made->otherwise, operands, other == NULL ? 1 : 2, NULL);
}

/* Python's methods get no argument that says which operator they are, so there is one function for each number. */
#define TRACED_OPERATOR(n)                                                                                             \
    static PyObject *traced_operator_##n(PyObject *self, PyObject *other)                                              \
    {                                                                                                                  \
        return apply_traced_operator(n, self, other);                                                                  \
    }
#define EIGHT(f, n) f(n##0) f(n##1) f(n##2) f(n##3) f(n##4) f(n##5) f(n##6) f(n##7)
#define ALL_OPERATORS(f) EIGHT(f, 0) EIGHT(f, 01) EIGHT(f, 02) EIGHT(f, 03) EIGHT(f, 04) EIGHT(f, 05) EIGHT(f, 06) EIGHT(f, 07)
ALL_OPERATORS(TRACED_OPERATOR)
#define TRACED_OPERATOR_ENTRY(n) traced_operator_##n,
static const PyCFunction traced_functions[TRACED_OPERATORS] = {ALL_OPERATORS(TRACED_OPERATOR_ENTRY)};

/* install_traced_operator(owner, name, op name, is_reflected): put an operator before the method that a class has. */
static PyObject *install_traced_operator(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyTypeObject *owner;
    const char *name, *op_name;
    int is_reflected;
    if (!PyArg_ParseTuple(args, "O!ssp", &PyType_Type, &owner, &name, &op_name, &is_reflected))
        return NULL;
    ScalarOp *op = find_op(op_name);
    PyObject *otherwise = op == NULL ? NULL : PyObject_GetAttrString((PyObject *)owner, name);
    if (otherwise == NULL)
        return NULL;
    if (traced_operator_count == TRACED_OPERATORS) {
        PyErr_Format(PyExc_ValueError, "the recorder has no place for the operator %s", name);
        Py_DECREF(otherwise);
        return NULL;
    }
    traced_operators[traced_operator_count] = (TracedOperator){op, otherwise, is_reflected};
    if (replace_method(owner, name, traced_functions[traced_operator_count], op->arity == 1 ? METH_NOARGS : METH_O) < 0) {
        Py_DECREF(otherwise);
        return NULL;
    }
    traced_operator_count++;
    Py_RETURN_NONE;
}

/* ---- Conditions ---- */

/* A comparison of a class of traced numbers: its op, Python's number of it, and the method for everything else. */
typedef struct {
    PyTypeObject *owner;
    PyObject *otherwise;
    uint16_t code;
    int sign;
} TracedComparison;

#define TRACED_COMPARISONS 16
static TracedComparison traced_comparisons[TRACED_COMPARISONS];
static int traced_comparison_count;
static PyObject *asks_name; /* "asks" */

/* The call of the user's code that runs now; NULL without an error if that is not known here. */
static TraceCall *running_call(void)
{
    TraceSites *sites = running_sites();
    PyFrameObject *frame = PyEval_GetFrame();
    if (frame == NULL)
        return NULL;
    if ((PyObject *)frame == sites->last_frame)
        return sites->last_call;
    CodeNotes *code = notes_of_frame(sites, frame);
    return code == NULL || code->kind_number != USER_CODE ? NULL : call_of_frame(sites, frame, code);
}

/* Whether the functions of a call and of those around it were searched for tests of identity, and have none; -1 on an
   error. */
static int is_searched(TraceCall *call)
{
    PyObject *asks = running_trace.scan == Py_None ? NULL : PyObject_GetAttr(running_trace.scan, asks_name);
    if (asks == NULL)
        return running_trace.scan == Py_None ? 0 : -1;
    Py_DECREF(asks);
    if (asks != Py_False)
        return 0;
    for (const TraceCall *at = call; !at->is_searched; at = running_sites()->calls[at->parent]) {
        if (!at->code->is_searched || at->is_python)
            return 0;
        if (at->parent < 0)
            break;
    }
    call->is_searched = 1;
    return 1;
}

/* Note that Python has searched the functions of a call and of those around it. */
static void note_search(TraceCall *call)
{
    for (TraceCall *at = call; !at->is_python; at = running_sites()->calls[at->parent]) {
        at->code->is_searched = 1;
        if (at->parent < 0)
            break;
    }
}

/* Append the row of a condition and return its value. No gradient flows through it. */
static PyObject *make_condition(PyTypeObject *kind, int is_true, const TracedOperand *a, const TracedOperand *b,
                                uint16_t code)
{
    PyObject *value = kind->tp_alloc(kind, 0);
    PyByteArrayObject *rows = value == NULL ? NULL : grow_tape(running_trace.tape);
    const Py_ssize_t offset = rows == NULL ? -1 : Py_SIZE(rows);
    PyObject *index = offset < 0 ? NULL : PyLong_FromSsize_t(offset);
    PyObject *bound = index == NULL ? NULL : PyLong_FromLong(1);
    if (bound != NULL) {
        const Outcome outcome = {is_true, a->offset < 0 ? a->number : 0.0, b->offset < 0 ? b->number : 0.0,
                                 (a->offset >= 0) | (b->offset >= 0) << 1};
        append_row(rows, &outcome, a->offset, b->offset, code);
    }
    if (bound == NULL || note_row(running_sites(), offset) < 0) {
        Py_XDECREF(bound);
        Py_XDECREF(index);
        Py_XDECREF(value);
        return NULL;
    }
    SCALAR(value)->data = Py_NewRef(is_true ? numpy_true : numpy_false);
    SLOT(value, value_index) = index;
    SCALAR(value)->tape = Py_NewRef(running_trace.tape);
    if (kind == python_condition_class)
        SLOT(value, condition_bound) = Py_NewRef(bound);
    Py_DECREF(bound);
    return value;
}

static int compare_numbers(double a, double b, int sign)
{
    switch (sign) {
    case Py_LT:
        return a < b;
    case Py_LE:
        return a <= b;
    case Py_EQ:
        return a == b;
    case Py_NE:
        return a != b;
    case Py_GT:
        return a > b;
    default:
        return a >= b;
    }
}

/* Whether a double is the whole number that a literal is, if it is one. */
static int is_exact(const TracedOperand *operand, PyObject *object)
{
    return !PyLong_Check(object) || fabs(operand->number) <= 9007199254740992.0;
}

static PyObject *apply_traced_comparison(int number, PyObject *self, PyObject *other)
{
    const TracedComparison *made = &traced_comparisons[number];
    TracedOperand a, b;
    TraceCall *call = NULL;
    if (is_tracing() && PyList_GET_SIZE(last_lookup) == 0 && Py_TYPE(self) == made->owner && is_traced_number(self) &&
        read_operand(self, &a) && read_operand(other, &b) && is_exact(&b, other)) {
        const int is_plain = is_plain_trace();
        call = is_plain > 0 ? running_call() : NULL;
        const int is_free = call == NULL ? 0 : is_searched(call);
        if (is_plain < 0 || is_free < 0 || (call == NULL && PyErr_Occurred()))
            return NULL;
        if (is_free) {
            const int is_python = a.is_python && b.is_python;
            return make_condition(is_python ? python_condition_class : condition_class,
                                  compare_numbers(a.number, b.number, made->sign), &a, &b, made->code);
        }
    }
    PyObject *operands[2] = {self, other};
    PyObject *sites = running_trace.sites;
    PyObject *result = PyObject_Vectorcall(made->otherwise, operands, 2, NULL);
    const int is_recorded = result != NULL && (Py_TYPE(result) == condition_class || Py_TYPE(result) == python_condition_class);
    if (call != NULL && is_recorded && running_trace.sites == sites)
        note_search(call);
    return result;
}

#define TRACED_COMPARISON(n)                                                                                           \
    static PyObject *traced_comparison_##n(PyObject *self, PyObject *other)                                            \
    {                                                                                                                  \
        return apply_traced_comparison(n, self, other);                                                                \
    }
EIGHT(TRACED_COMPARISON, 0) EIGHT(TRACED_COMPARISON, 01)
#define TRACED_COMPARISON_ENTRY(n) traced_comparison_##n,
static const PyCFunction traced_comparison_functions[TRACED_COMPARISONS] = {
    EIGHT(TRACED_COMPARISON_ENTRY, 0) EIGHT(TRACED_COMPARISON_ENTRY, 01)};

/* install_traced_comparison(owner, name, op code, sign): put a comparison before the method that a class has. `sign` is
   the number that Python's C interface has for it. */
static PyObject *install_traced_comparison(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyTypeObject *owner;
    const char *name;
    int code, sign;
    if (!PyArg_ParseTuple(args, "O!sii", &PyType_Type, &owner, &name, &code, &sign))
        return NULL;
    if (traced_comparison_count == TRACED_COMPARISONS) {
        PyErr_Format(PyExc_ValueError, "the recorder has no place for the comparison %s", name);
        return NULL;
    }
    PyObject *otherwise = PyObject_GetAttrString((PyObject *)owner, name);
    if (otherwise == NULL)
        return NULL;
    traced_comparisons[traced_comparison_count] = (TracedComparison){owner, otherwise, (uint16_t)code, sign};
    if (replace_method(owner, name, traced_comparison_functions[traced_comparison_count], METH_O) < 0) {
        Py_DECREF(otherwise);
        return NULL;
    }
    Py_INCREF(owner);
    traced_comparison_count++;
    Py_RETURN_NONE;
}

static PyObject *truth_otherwise; /* the Python method that the next one replaces */

/* The line that runs now; NULL without an error if that is not the user's code. */
static PyObject *find_running_place(void)
{
    TraceSites *sites = running_sites();
    PyFrameObject *frame = PyEval_GetFrame();
    CodeNotes *code = frame == NULL ? NULL : notes_of_frame(sites, frame);
    if (code == NULL || code->kind_number != USER_CODE)
        return NULL;
    const int32_t instruction = instruction_of(code, frame);
    InstructionNotes *notes = instruction < 0 ? NULL : notes_of_instruction(code, instruction);
    if (notes != NULL && notes->place == NULL) {
        PyObject *place = PyObject_CallMethod(sites->tracker, "find_place", "Oi", code->code, (int)instruction);
        notes = place == NULL ? NULL : notes_of_instruction(code, instruction);
        if (notes == NULL)
            Py_XDECREF(place);
        else
            Py_XSETREF(notes->place, place);
    }
    return notes == NULL ? NULL : Py_NewRef(notes->place);
}

/* __bool__ of conditions: note that a condition of the running trace has steered Python. */
static PyObject *test_condition(PyObject *self, PyObject *Py_UNUSED(unused))
{
    PyObject *data = SCALAR(self)->data, *index = SLOT(self, value_index);
    PyObject *place = NULL;
    if (is_tracing() && SCALAR(self)->tape == running_trace.tape && index != NULL &&
        (data == numpy_true || data == numpy_false)) {
        const int is_plain = is_plain_trace();
        place = is_plain > 0 ? find_running_place() : NULL;
        if (is_plain < 0 || (place == NULL && PyErr_Occurred()))
            return NULL;
    }
    if (place == NULL)
        return PyObject_CallOneArg(truth_otherwise, self);
    PyObject *outcome = data == numpy_true ? Py_True : Py_False;
    PyObject *certificate = certificate_class->tp_alloc(certificate_class, 3);
    if (certificate == NULL) {
        Py_DECREF(place);
        return NULL;
    }
    PyTuple_SET_ITEM(certificate, 0, Py_NewRef(index));
    PyTuple_SET_ITEM(certificate, 1, Py_NewRef(outcome));
    PyTuple_SET_ITEM(certificate, 2, place);
    const int failed = PyList_Append(running_trace.certificates, certificate) < 0;
    Py_DECREF(certificate);
    return failed ? NULL : Py_NewRef(outcome);
}

/* install_traced_truth(owner): note certificates where Python tests conditions. */
static PyObject *install_traced_truth(PyObject *Py_UNUSED(module), PyObject *owner)
{
    if (!PyType_Check(owner)) {
        PyErr_SetString(PyExc_TypeError, "install_traced_truth needs a class");
        return NULL;
    }
    Py_XSETREF(truth_otherwise, PyObject_GetAttrString(owner, "__bool__"));
    if (truth_otherwise == NULL ||
        replace_method((PyTypeObject *)owner, "__bool__", test_condition, METH_NOARGS) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* A method of traced numbers that records an op of one input; everything else is left to the method that it replaced. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    ScalarOp *op;
    PyObject *otherwise;
} TracedMethod;

static PyTypeObject *traced_method_class;

static PyObject *call_traced_method(PyObject *self, PyObject *const *args, size_t count, PyObject *keywords)
{
    const TracedMethod *method = (TracedMethod *)self;
    if (PyVectorcall_NARGS(count) == 1 && keywords == NULL) {
        PyObject *result = apply_traced(method->op, args[0], NULL, 0);
        if (result != NULL || PyErr_Occurred())
            return result;
    }
    return PyObject_Vectorcall(method->otherwise, args, count, keywords);
}

static int traced_method_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((TracedMethod *)self)->otherwise);
    return 0;
}

static int traced_method_clear(PyObject *self)
{
    Py_CLEAR(((TracedMethod *)self)->otherwise);
    return 0;
}

static void traced_method_dealloc(PyObject *self)
{
    PyTypeObject *kind = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    traced_method_clear(self);
    kind->tp_free(self);
    Py_DECREF(kind);
}

static PyObject *bind_traced_method(PyObject *self, PyObject *instance, PyObject *Py_UNUSED(owner))
{
    return instance == NULL || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

/* Name, documentation and signature are those of the method that was replaced. */
static PyObject *read_replaced(PyObject *self, void *name)
{
    return PyObject_GetAttrString(((TracedMethod *)self)->otherwise, name);
}

static PyGetSetDef traced_method_getset[] = {
    {"__doc__", read_replaced, NULL, NULL, "__doc__"},
    {"__name__", read_replaced, NULL, NULL, "__name__"},
    {"__qualname__", read_replaced, NULL, NULL, "__qualname__"},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef traced_method_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(TracedMethod, call), READONLY, NULL},
    {"__wrapped__", T_OBJECT_EX, offsetof(TracedMethod, otherwise), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot traced_method_slots[] = {
    {Py_tp_traverse, traced_method_traverse},
    {Py_tp_clear, traced_method_clear},
    {Py_tp_dealloc, traced_method_dealloc},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_descr_get, bind_traced_method},
    {Py_tp_getset, traced_method_getset},
    {Py_tp_members, traced_method_members},
    {0, NULL},
};

static PyType_Spec traced_method_spec = {
    .name = "wiregrad._recorder.TracedMethod",
    .basicsize = sizeof(TracedMethod),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = traced_method_slots,
};

/* install_traced_method(owner, name, op name): put a method before the one that a class has. */
static PyObject *install_traced_method(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyTypeObject *owner;
    const char *name, *op_name;
    if (!PyArg_ParseTuple(args, "O!ss", &PyType_Type, &owner, &name, &op_name))
        return NULL;
    ScalarOp *op = find_op(op_name);
    PyObject *otherwise = op == NULL ? NULL : PyObject_GetAttrString((PyObject *)owner, name);
    TracedMethod *method = otherwise == NULL ? NULL : PyObject_GC_New(TracedMethod, traced_method_class);
    if (method == NULL) {
        Py_XDECREF(otherwise);
        return NULL;
    }
    method->call = call_traced_method;
    method->op = op;
    method->otherwise = otherwise;
    PyObject_GC_Track(method);
    const int failed = PyObject_SetAttrString((PyObject *)owner, name, (PyObject *)method);
    Py_DECREF(method);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

/* __array_ufunc__ of traced numbers and arrays: a ufunc whose op is recorded here; everything else is Python's. */
static PyObject *apply_traced_ufunc(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    const int has_keywords = keywords != NULL && PyTuple_GET_SIZE(keywords) != 0;
    if (!has_keywords && is_tracing() && (count == 3 || count == 4)) {
        ScalarOp *op;
        if (find_called_op(args, &op) < 0)
            return NULL;
        PyObject *result = op == NULL ? NULL : apply_traced_any(op, args[2], count == 4 ? args[3] : NULL, 0);
        if (result != NULL || PyErr_Occurred())
            return result;
    }
    return call_ufunc_fallback(self, args, count, keywords);
}

static PyMethodDef traced_ufunc_definition = {
    "__array_ufunc__", (PyCFunction)(void (*)(void))apply_traced_ufunc, METH_FASTCALL | METH_KEYWORDS,
    "Apply a ufunc, or its method `reduce`, `accumulate` or `outer`, to values."};

/* install_traced_ufuncs(owner): record ops where NumPy calls ufuncs on traced numbers. */
static PyObject *install_traced_ufuncs(PyObject *Py_UNUSED(module), PyObject *owner)
{
    if (!PyType_Check(owner)) {
        PyErr_SetString(PyExc_TypeError, "install_traced_ufuncs needs a class");
        return NULL;
    }
    PyObject *method = PyDescr_NewMethod((PyTypeObject *)owner, &traced_ufunc_definition);
    const int failed = method == NULL || PyObject_SetAttrString(owner, "__array_ufunc__", method) < 0;
    Py_XDECREF(method);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

/* apply_traced_op(op, operands): the value of an op recorded as a row; None if the Python path has to record it. */
static PyObject *apply_traced_op(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyTuple_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "apply_traced_op takes an op and a tuple of operands");
        return NULL;
    }
    const Py_ssize_t arity = PyTuple_GET_SIZE(args[1]);
    if (!is_tracing() || arity < 1 || arity > 2)
        Py_RETURN_NONE;
    PyObject *found = PyDict_GetItemWithError(traced_ops, args[0]);
    if (found == NULL) {
        if (PyErr_Occurred())
            return NULL;
        Py_RETURN_NONE;
    }
    PyObject *two = arity == 2 ? PyTuple_GET_ITEM(args[1], 1) : NULL;
    PyObject *result = apply_traced(PyCapsule_GetPointer(found, NULL), PyTuple_GET_ITEM(args[1], 0), two, 0);
    if (result == NULL && !PyErr_Occurred())
        Py_RETURN_NONE;
    return result;
}

/* connect_traces(given): take what the Python side knows about traced numbers. */
static PyObject *connect_traces(PyObject *Py_UNUSED(module), PyObject *given)
{
    if (!PyDict_Check(given) || !is_connected) {
        PyErr_SetString(PyExc_TypeError, "connect_traces needs a dict, after connect");
        return NULL;
    }
    PyTypeObject *base = NULL;
    if (take(given, "value_class", &PyType_Type, (PyObject **)&base) < 0 ||
        take(given, "traced_class", &PyType_Type, (PyObject **)&traced_class) < 0 ||
        take(given, "traced_python_class", &PyType_Type, (PyObject **)&traced_python_class) < 0 ||
        take(given, "condition_class", &PyType_Type, (PyObject **)&condition_class) < 0 ||
        take(given, "python_condition_class", &PyType_Type, (PyObject **)&python_condition_class) < 0 ||
        take(given, "certificate_class", &PyType_Type, (PyObject **)&certificate_class) < 0 ||
        take(given, "integer_class", &PyType_Type, &integer_class) < 0 ||
        take(given, "recording_state", NULL, &recording_state) < 0 ||
        take(given, "error_settings", &PyContextVar_Type, &error_settings) < 0)
        return NULL;
    value_index = find_slot(base, "_index");
    condition_bound = find_slot(condition_class, "bound");
    Py_DECREF(base);
    PyObject *functions = PyDict_GetItemString(given, "forwards");
    if (value_index < 0 || condition_bound < 0 || functions == NULL || !PyDict_Check(functions)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "connect_traces needs forwards");
        return NULL;
    }
    innermost_name = PyUnicode_InternFromString("innermost");
    asks_name = PyUnicode_InternFromString("asks");
    Py_XSETREF(traced_ops, PyDict_New());
    if (innermost_name == NULL || asks_name == NULL || traced_ops == NULL)
        return NULL;
    for (Py_ssize_t k = 0; k < OP_COUNT; k++) {
        PyObject *forward = PyDict_GetItemString(functions, OPS[k].name);
        if (forward == NULL || OPS[k].op == NULL)
            continue;
        Py_XSETREF(forwards[k], forward == Py_None ? NULL : Py_NewRef(forward));
        PyObject *capsule = PyCapsule_New(&OPS[k], NULL, NULL);
        const int failed = capsule == NULL || PyDict_SetItem(traced_ops, OPS[k].op, capsule) < 0;
        Py_XDECREF(capsule);
        if (failed)
            return NULL;
    }
    Py_RETURN_NONE;
}

/* mark_needed(rows, marks, others): set the mark of every row that a marked one reads. `others` maps the offset of a row
   that is not packed to the offsets of its sources. */
static PyObject *mark_needed(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer rows;
    PyObject *marks, *others;
    if (!PyArg_ParseTuple(args, "y*O!O!", &rows, &PyByteArray_Type, &marks, &PyDict_Type, &others))
        return NULL;
    const Py_ssize_t count = rows.len / ROW_SIZE;
    char *marked = PyByteArray_AS_STRING(marks);
    int failed = PyByteArray_GET_SIZE(marks) != count;
    if (failed)
        PyErr_SetString(PyExc_ValueError, "there must be one mark for each row");
    for (Py_ssize_t row = count - 1; row >= 0 && !failed; row--) {
        if (!marked[row])
            continue;
        int32_t sources[2];
        memcpy(sources, (char *)rows.buf + row * ROW_SIZE + 24, sizeof(sources));
        if (sources[0] == EXTRA) {
            PyObject *key = PyLong_FromSsize_t(row * ROW_SIZE);
            PyObject *read = key == NULL ? NULL : PyDict_GetItemWithError(others, key);
            Py_XDECREF(key);
            failed = read == NULL && PyErr_Occurred();
            PyObject *list = read == NULL ? NULL : PyTuple_GET_ITEM(read, 1);
            for (Py_ssize_t k = 0; list != NULL && k < PyTuple_GET_SIZE(list); k++) {
                const Py_ssize_t source = PyLong_AsSsize_t(PyTuple_GET_ITEM(list, k));
                if (source >= 0 && source / ROW_SIZE < count)
                    marked[source / ROW_SIZE] = 1;
            }
            continue;
        }
        for (int k = 0; k < 2; k++) {
            const Py_ssize_t source = sources[k] <= BLOCKED ? (Py_ssize_t)BLOCKED - sources[k] : sources[k];
            if (source >= 0 && source / ROW_SIZE < count)
                marked[source / ROW_SIZE] = 1;
        }
    }
    PyBuffer_Release(&rows);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}
