/* Sweeps that are recorded, so that their results can be differentiated again. Included by recorder.c.

A flow is a Python object: a plain number, a scalar on the tape, or None where it is absent. The rule of an op is a list
of steps that record ops, which `connect_rules` was given: what the op's derivative rule records on values, in the same
order, so that the rows are the same as if Python had swept. A row without such a rule (one that compares numbers, or a
node that is not a packed row) is left to a Python function. */

#define MAX_STEPS_OF_RULE 16
#define MAX_CONSTANTS_OF_RULE 6

/* An operand of a step: an input, the output, a constant, or the result of an earlier step. */
enum { OUTPUT_OPERAND = 2, FIRST_CONSTANT = 3, FIRST_RESULT = FIRST_CONSTANT + MAX_CONSTANTS_OF_RULE };
#define OPERANDS_OF_RULE (FIRST_RESULT + MAX_STEPS_OF_RULE)

typedef struct {
    ScalarOp *op;
    int one, two;
} RuleStep;

typedef struct {
    int is_known, is_absent; /* absent: no gradient flows to this input */
    int constant_count, step_count, result;
    PyObject *constants[MAX_CONSTANTS_OF_RULE];
    RuleStep steps[MAX_STEPS_OF_RULE];
} SlopeRule;

static SlopeRule rules[sizeof(OPS) / sizeof(OPS[0])][2];

/* Read a rule: None if Python has to run it, () if nothing flows, else (constants, steps, result). */
static int take_rule(PyObject *given, SlopeRule *rule)
{
    memset(rule, 0, sizeof(*rule));
    if (given == Py_None)
        return 0;
    PyObject *constants, *steps;
    if (PyTuple_Check(given) && PyTuple_GET_SIZE(given) == 0) {
        rule->is_known = rule->is_absent = 1;
        return 0;
    }
    if (!PyArg_ParseTuple(given, "O!O!i", &PyTuple_Type, &constants, &PyTuple_Type, &steps, &rule->result))
        return -1;
    if (PyTuple_GET_SIZE(constants) > MAX_CONSTANTS_OF_RULE || PyTuple_GET_SIZE(steps) > MAX_STEPS_OF_RULE)
        return 0;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(steps); k++) {
        const char *name;
        RuleStep *step = &rule->steps[k];
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(steps, k), "sii", &name, &step->one, &step->two))
            return -1;
        step->op = find_op(name);
        if (step->op == NULL)
            return -1;
        const int before = FIRST_RESULT + (int)k;
        if (step->one < 0 || step->one >= before || step->two >= before || (step->op->arity == 2) != (step->two >= 0)) {
            PyErr_SetString(PyExc_ValueError, "a step of a rule reads what is not there");
            return -1;
        }
    }
    rule->step_count = (int)PyTuple_GET_SIZE(steps);
    if (rule->result < 0 || rule->result >= FIRST_RESULT + rule->step_count) {
        PyErr_SetString(PyExc_ValueError, "the result of a rule is not there");
        return -1;
    }
    rule->constant_count = (int)PyTuple_GET_SIZE(constants);
    for (int k = 0; k < rule->constant_count; k++)
        rule->constants[k] = Py_NewRef(PyTuple_GET_ITEM(constants, k));
    rule->is_known = 1;
    return 0;
}

static PyObject *find_rules; /* a function: the rules of an op, a tuple of one for each input */
static unsigned char is_asked[sizeof(OPS) / sizeof(OPS[0])];

/* connect_rules(find_rules): take the function that is asked for the rules of an op when it is first swept. */
static PyObject *connect_rules(PyObject *Py_UNUSED(module), PyObject *function)
{
    Py_XSETREF(find_rules, Py_NewRef(function));
    Py_RETURN_NONE;
}

/* Ask for the rules of an op; -1 on an error. */
static int ask_rules(ScalarOp *op)
{
    if (find_rules == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the recorder does not know derivative rules yet");
        return -1;
    }
    PyObject *slots = PyObject_CallOneArg(find_rules, op->op);
    int failed = slots == NULL;
    if (!failed && (!PyTuple_Check(slots) || PyTuple_GET_SIZE(slots) != op->arity)) {
        PyErr_Format(PyExc_TypeError, "%s needs one rule for each input", op->name);
        failed = 1;
    }
    for (int slot = 0; slot < op->arity && !failed; slot++)
        failed = take_rule(PyTuple_GET_ITEM(slots, slot), &rules[op - OPS][slot]) < 0;
    Py_XDECREF(slots);
    is_asked[op - OPS] = !failed;
    return failed ? -1 : 0;
}

/* Whether an op has rules that can be run here, or has to be asked for them; 0 also on an error. */
static int has_rules(ScalarOp *op)
{
    return op != NULL && !op->has_kinks && (is_asked[op - OPS] || ask_rules(op) == 0);
}

/* One row of a tape as a sweep sees it. */
typedef struct {
    double y, numbers[2];
    Py_ssize_t offset, sources[2]; /* LITERAL for a plain number */
    ScalarOp *op;                  /* NULL if it is not a packed row, or its op is not known here */
} RecordedRow;

static RecordedRow read_row(PyObject *tape, Py_ssize_t offset)
{
    const char *at = PyByteArray_AS_STRING(SLOT(tape, tape_buffer)) + offset;
    RecordedRow row = {.offset = offset};
    int32_t sources[2];
    uint16_t code;
    memcpy(&row.y, at, 8);
    memcpy(row.numbers, at + 8, 16);
    memcpy(sources, at + 24, 8);
    memcpy(&code, at + 32, 2);
    for (int k = 0; k < 2; k++)
        row.sources[k] = sources[k] <= BLOCKED ? (Py_ssize_t)BLOCKED - sources[k] : sources[k];
    row.op = sources[0] == EXTRA || code >= MAX_OP_CODE ? NULL : ops_by_code[code];
    return row;
}

/* The rows of a sweep. */
typedef struct {
    PyObject *tape, *flows, *python; /* the flows are a list; Python's function passes on the flow of a node */
    Py_ssize_t start, size;
    const char *marks;
} RecordedSweep;

/* Whether a flow can be passed on here: a plain number, or a scalar. */
static int is_plain_flow(PyObject *flow)
{
    return PyFloat_CheckExact(flow) || Py_TYPE(flow) == float64_class || IS_SCALAR(flow);
}

/* A node of the tape as a scalar; `number` is its value. */
static PyObject *view_scalar(PyObject *tape, Py_ssize_t offset, double number)
{
    Scalar *view = new_scalar(numpy_scalar_class);
    if (view == NULL)
        return NULL;
    view->tape = Py_NewRef(tape);
    view->number = number;
    view->offset = offset;
#if !HIDES_SCALARS
    PyObject_GC_Track(view);
#endif
    return (PyObject *)view;
}

/* The value of a node that is a number: 1 if it is one, 0 if not, -1 on an error. */
static int read_node_number(PyObject *tape, Py_ssize_t offset, double *number)
{
    const RecordedRow row = read_row(tape, offset);
    if (row.sources[0] != EXTRA) {
        *number = row.y;
        return 1;
    }
    PyObject *extra;
    if (find_extra(tape, offset, &extra) < 0)
        return -1;
    PyObject *y = extra != NULL && PyTuple_Check(extra) && PyTuple_GET_SIZE(extra) > 3 ? PyTuple_GET_ITEM(extra, 3) : NULL;
    if (y == NULL || !PyFloat_Check(y))
        return 0;
    *number = PyFloat_AS_DOUBLE(y);
    return 1;
}

/* Make the operand of a rule that is an input or the output; NULL without an error if Python has to do it. */
static PyObject *load_operand(const RecordedSweep *sweep, const RecordedRow *row, int operand)
{
    if (operand == OUTPUT_OPERAND)
        return view_scalar(sweep->tape, row->offset, row->y);
    if (row->sources[operand] == LITERAL)
        return make_float64(row->numbers[operand]);
    double number = 0.0;
    const int found = read_node_number(sweep->tape, row->sources[operand], &number);
    return found > 0 ? view_scalar(sweep->tape, row->sources[operand], number) : NULL;
}

static PyObject *apply_step(ScalarOp *op, PyObject *one, PyObject *two)
{
    if (!IS_SCALAR(one) && (two == NULL || !IS_SCALAR(two)))
        return PyObject_CallFunctionObjArgs(op->op, one, two, NULL); /* on plain numbers: NumPy computes it */
    return op->arity == 1 ? apply_unary(op, one, numpy_scalar_class) : apply_binary(op, one, two, numpy_scalar_class);
}

/* The operands of one row's rules: those that were made. */
typedef struct {
    PyObject *shared[OUTPUT_OPERAND + 1]; /* inputs and output: each is made once for all rules of a row */
} RowOperands;

static void drop_operands(RowOperands *operands)
{
    for (int k = 0; k <= OUTPUT_OPERAND; k++)
        Py_CLEAR(operands->shared[k]);
}

/* Find the operand of a step, a borrowed reference. */
static PyObject *find_step_operand(const RecordedSweep *sweep, const RecordedRow *row, const SlopeRule *rule,
                                   RowOperands *operands, PyObject **results, int operand)
{
    if (operand >= FIRST_RESULT)
        return results[operand - FIRST_RESULT];
    if (operand >= FIRST_CONSTANT)
        return rule->constants[operand - FIRST_CONSTANT];
    if (operands->shared[operand] == NULL)
        operands->shared[operand] = load_operand(sweep, row, operand);
    return operands->shared[operand];
}

/* Run the rule of an input: its slope, a new reference. */
static PyObject *run_rule(const RecordedSweep *sweep, const RecordedRow *row, const SlopeRule *rule, RowOperands *operands)
{
    PyObject *results[MAX_STEPS_OF_RULE] = {NULL};
    int done = 0;
    while (done < rule->step_count) {
        const RuleStep *step = &rule->steps[done];
        PyObject *one = find_step_operand(sweep, row, rule, operands, results, step->one);
        PyObject *two = one == NULL || step->two < 0 ? NULL : find_step_operand(sweep, row, rule, operands, results, step->two);
        if (one == NULL || (step->two >= 0 && two == NULL))
            break;
        results[done] = apply_step(step->op, one, two);
        if (results[done] == NULL)
            break;
        done++;
    }
    PyObject *slope = NULL;
    if (done == rule->step_count)
        slope = Py_XNewRef(find_step_operand(sweep, row, rule, operands, results, rule->result));
    for (int k = 0; k < done; k++)
        Py_DECREF(results[k]);
    if (slope == NULL && !PyErr_Occurred())
        PyErr_SetString(PyExc_SystemError, "a rule has no operand");
    return slope;
}

/* 1.0 or -1.0 as a plain float; else 0.0. */
static double read_sign(PyObject *factor)
{
    const double number = PyFloat_CheckExact(factor) ? PyFloat_AS_DOUBLE(factor) : 0.0;
    return number == 1.0 || number == -1.0 ? number : 0.0;
}

/* The product of two flows, as `multiply_flows` computes it: a factor of 1.0 or -1.0 needs no product. */
static PyObject *multiply_plain_flows(PyObject *one, PyObject *two)
{
    double sign = read_sign(two);
    if (sign != 0.0)
        return sign == 1.0 ? Py_NewRef(one) : PyNumber_Negative(one);
    sign = read_sign(one);
    if (sign != 0.0)
        return sign == 1.0 ? Py_NewRef(two) : PyNumber_Negative(two);
    return PyNumber_Multiply(one, two);
}

/* Add to the flow of a node. Takes a reference to what is added. */
static int add_flow(PyObject *flows, Py_ssize_t node, PyObject *added)
{
    PyObject *held = PyList_GET_ITEM(flows, node);
    if (held != Py_None) {
        PyObject *sum = PyNumber_Add(held, added);
        Py_DECREF(added);
        if (sum == NULL)
            return -1;
        added = sum;
    }
    return PyList_SetItem(flows, node, added);
}

static Py_ssize_t index_in(const RecordedSweep *sweep, Py_ssize_t source)
{
    return source < sweep->start ? -1 : (source - sweep->start) / ROW_SIZE;
}

/* Whether the sources of a row can be read here, and are earlier rows. */
static int has_readable_sources(const RecordedSweep *sweep, const RecordedRow *row)
{
    for (int slot = 0; slot < row->op->arity; slot++) {
        double number;
        const Py_ssize_t source = row->sources[slot];
        if (source >= row->offset)
            return 0;
        if (source != LITERAL && (source < 0 || read_node_number(sweep->tape, source, &number) <= 0))
            return 0;
    }
    return 1;
}

/* Whether the gradient of a row can be passed on here to every input that a root is behind. */
static int can_pull(const RecordedSweep *sweep, const RecordedRow *row)
{
    if (!has_rules(row->op))
        return 0;
    for (int slot = 0; slot < row->op->arity; slot++) {
        const Py_ssize_t node = index_in(sweep, row->sources[slot]);
        if (node >= 0 && sweep->marks[node] != INACTIVE && !rules[row->op - OPS][slot].is_known)
            return 0;
    }
    return has_readable_sources(sweep, row);
}

static int pull_row(const RecordedSweep *sweep, const RecordedRow *row, PyObject *upstream)
{
    RowOperands operands = {{NULL}};
    int failed = 0;
    for (int slot = row->op->arity - 1; slot >= 0 && !failed; slot--) {
        const Py_ssize_t node = index_in(sweep, row->sources[slot]);
        const SlopeRule *rule = &rules[row->op - OPS][slot];
        if (node < 0 || sweep->marks[node] == INACTIVE || rule->is_absent)
            continue;
        PyObject *slope = run_rule(sweep, row, rule, &operands);
        PyObject *sent = slope == NULL ? NULL : multiply_plain_flows(upstream, slope);
        Py_XDECREF(slope);
        failed = sent == NULL || add_flow(sweep->flows, node, sent) < 0;
    }
    drop_operands(&operands);
    return failed ? -1 : 0;
}

/* Whether a tangent of a row can be computed here. */
static int can_push(const RecordedSweep *sweep, const RecordedRow *row)
{
    if (!has_rules(row->op))
        return 0;
    for (int slot = 0; slot < row->op->arity; slot++) {
        const Py_ssize_t node = index_in(sweep, row->sources[slot]);
        PyObject *tangent = node < 0 ? Py_None : PyList_GET_ITEM(sweep->flows, node);
        if (tangent != Py_None && (!is_plain_flow(tangent) || !rules[row->op - OPS][slot].is_known))
            return 0;
    }
    return has_readable_sources(sweep, row);
}

static int push_row(const RecordedSweep *sweep, const RecordedRow *row, Py_ssize_t node)
{
    RowOperands operands = {{NULL}};
    PyObject *products[2] = {NULL, NULL};
    int failed = 0;
    for (int slot = 0; slot < row->op->arity && !failed; slot++) {
        const Py_ssize_t source = index_in(sweep, row->sources[slot]);
        const SlopeRule *rule = &rules[row->op - OPS][slot];
        PyObject *tangent = source < 0 ? Py_None : PyList_GET_ITEM(sweep->flows, source);
        if (tangent == Py_None || rule->is_absent)
            continue;
        Py_INCREF(tangent);
        PyObject *slope = run_rule(sweep, row, rule, &operands);
        products[slot] = slope == NULL ? NULL : multiply_plain_flows(tangent, slope);
        Py_XDECREF(slope);
        Py_DECREF(tangent);
        failed = products[slot] == NULL;
    }
    for (int slot = 0; slot < 2; slot++) {
        if (products[slot] != NULL && !failed)
            failed = add_flow(sweep->flows, node, products[slot]) < 0;
        else
            Py_XDECREF(products[slot]);
    }
    drop_operands(&operands);
    return failed ? -1 : 0;
}

static int call_python_row(const RecordedSweep *sweep, Py_ssize_t node)
{
    PyObject *done = PyObject_CallFunction(sweep->python, "n", node);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* What a step's ops, a hook of a user's own op, and a signal run may have changed the tape; -1 if they did. */
static int check_sweep(const RecordedSweep *sweep, PyObject *buffer)
{
    if (SLOT(sweep->tape, tape_buffer) != buffer || PyList_GET_SIZE(sweep->flows) != sweep->size ||
        sweep->start + sweep->size * ROW_SIZE > PyByteArray_GET_SIZE(buffer)) {
        PyErr_SetString(PyExc_RuntimeError, "the tape is shorter than its sweep");
        return -1;
    }
    return 0;
}

static int pull_node(const RecordedSweep *sweep, Py_ssize_t node)
{
    PyObject *upstream = PyList_GET_ITEM(sweep->flows, node);
    if (upstream == Py_None || sweep->marks[node] != ACTIVE)
        return 0;
    const RecordedRow row = read_row(sweep->tape, sweep->start + node * ROW_SIZE);
    if (!is_plain_flow(upstream) || !can_pull(sweep, &row))
        return PyErr_Occurred() ? -1 : call_python_row(sweep, node);
    Py_INCREF(upstream);
    const int failed = pull_row(sweep, &row, upstream);
    Py_DECREF(upstream);
    return failed;
}

static int push_node(const RecordedSweep *sweep, Py_ssize_t node)
{
    if (sweep->marks[node] != ACTIVE)
        return 0;
    const RecordedRow row = read_row(sweep->tape, sweep->start + node * ROW_SIZE);
    if (!can_push(sweep, &row))
        return PyErr_Occurred() ? -1 : call_python_row(sweep, node);
    return push_row(sweep, &row, node);
}

#define NODES_BETWEEN_CHECKS 0x1000

/* sweep_values(tape, start, flows, marks, python, is_backward): run a sweep over the rows behind an offset. */
static PyObject *sweep_values(PyObject *Py_UNUSED(module), PyObject *args)
{
    RecordedSweep sweep;
    PyObject *marks;
    int is_backward;
    if (!PyArg_ParseTuple(args, "OnO!O!Op", &sweep.tape, &sweep.start, &PyList_Type, &sweep.flows, &PyBytes_Type, &marks,
                          &sweep.python, &is_backward))
        return NULL;
    sweep.size = PyList_GET_SIZE(sweep.flows);
    sweep.marks = PyBytes_AS_STRING(marks);
    PyObject *buffer = is_connected && Py_TYPE(sweep.tape) == tape_class ? SLOT(sweep.tape, tape_buffer) : NULL;
    if (buffer == NULL || !PyByteArray_CheckExact(buffer) || sweep.start < 0 || PyBytes_GET_SIZE(marks) != sweep.size) {
        PyErr_SetString(PyExc_TypeError, "sweep_values needs a tape, and a mark for each flow");
        return NULL;
    }
    for (Py_ssize_t k = 0; k < sweep.size; k++) {
        if (check_sweep(&sweep, buffer) < 0)
            return NULL;
        const int failed = is_backward ? pull_node(&sweep, sweep.size - 1 - k) : push_node(&sweep, k);
        if (failed || (k % NODES_BETWEEN_CHECKS == 0 && PyErr_CheckSignals() < 0))
            return NULL;
    }
    Py_RETURN_NONE;
}

/* Mark a node as active if a root is behind one of its sources, an object that is an offset; -1 on an error. */
static int reaches_root(PyObject *sources, const char *marks, Py_ssize_t start, Py_ssize_t node)
{
    for (Py_ssize_t k = 0; sources != NULL && k < PyTuple_GET_SIZE(sources); k++) {
        const Py_ssize_t source = PyLong_AsSsize_t(PyTuple_GET_ITEM(sources, k));
        if (source == -1 && PyErr_Occurred())
            return -1;
        const Py_ssize_t at = source < start ? -1 : (source - start) / ROW_SIZE;
        if (at >= 0 && at < node && marks[at] != INACTIVE)
            return 1;
    }
    return 0;
}

/* mark_active(tape, start, stop, roots): bytes that say which nodes have a root behind them; None if one of the nodes is
   not a number. */
static PyObject *mark_active(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *tape, *roots;
    Py_ssize_t start, stop;
    if (!PyArg_ParseTuple(args, "OnnO!", &tape, &start, &stop, &PyList_Type, &roots))
        return NULL;
    PyObject *buffer = is_connected && Py_TYPE(tape) == tape_class ? SLOT(tape, tape_buffer) : NULL;
    if (buffer == NULL || !PyByteArray_CheckExact(buffer) || start < 0 || stop < start || stop > PyByteArray_GET_SIZE(buffer)) {
        PyErr_SetString(PyExc_TypeError, "mark_active needs a tape and a part of its rows");
        return NULL;
    }
    const Py_ssize_t size = (stop - start) / ROW_SIZE;
    PyObject *result = PyBytes_FromStringAndSize(NULL, size);
    if (result == NULL)
        return NULL;
    char *marks = PyBytes_AS_STRING(result);
    memset(marks, INACTIVE, (size_t)size);
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(roots); k++) {
        const Py_ssize_t root = PyLong_AsSsize_t(PyList_GET_ITEM(roots, k));
        if (root == -1 && PyErr_Occurred()) {
            Py_DECREF(result);
            return NULL;
        }
        if (root >= start && root < stop)
            marks[(root - start) / ROW_SIZE] = ROOT;
    }
    for (Py_ssize_t node = 0; node < size; node++) {
        const RecordedRow row = read_row(tape, start + node * ROW_SIZE);
        if (row.sources[0] == EXTRA) {
            PyObject *extra;
            double number;
            int is_active = find_extra(tape, row.offset, &extra);
            if (is_active == 0 && extra != NULL) {
                const int found = read_node_number(tape, row.offset, &number);
                if (found == 0) {
                    Py_DECREF(result);
                    Py_RETURN_NONE;
                }
                is_active = found < 0 ? -1 : reaches_root(sources_of(extra), marks, start, node);
            }
            if (is_active < 0) {
                Py_DECREF(result);
                return NULL;
            }
            if (is_active && marks[node] == INACTIVE)
                marks[node] = ACTIVE;
            continue;
        }
        for (int slot = 0; slot < 2; slot++) {
            const Py_ssize_t at = row.sources[slot] < start ? -1 : (row.sources[slot] - start) / ROW_SIZE;
            if (at >= 0 && at < node && marks[at] != INACTIVE && marks[node] == INACTIVE)
                marks[node] = ACTIVE;
        }
    }
    return result;
}
