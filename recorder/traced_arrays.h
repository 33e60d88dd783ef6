/* Ops on arrays while a function is traced: what `record._record_traced` does in Python, for the usual operands.

Operands are values of the running trace, plain numbers, and arrays of the usual dtypes; the result is an array or a
number of floats. Everything else (conditions, errors) is left to Python, which begins anew. */

/* The fields of an array that NumPy's public headers fix; they are compared before they are used. */
typedef struct {
    PyObject_HEAD
    char *data;
    int nd;
    Py_ssize_t *dimensions;
    Py_ssize_t *strides;
    PyObject *base;
    PyObject *descr;
    int flags;
} ArrayFields;

#define ARRAY(object) ((ArrayFields *)(object))
#define WRITEABLE 0x400 /* a flag of an array */
#define MAX_ARRAY_OPERANDS 32
#define MAX_AXES 64 /* of an array of NumPy */
#define MAX_OP_FACTS 4096

static PyTypeObject *array_class; /* np.ndarray */
static int are_arrays_known;       /* whether its fields are those above */
static PyObject *usual_dtypes, *float_dtypes; /* tuples; a result has one of the latter */
static PyObject *bool_dtype;
static PyObject *ensure_owned, *mode_of, *bind_index, *bind_spread;
static PyObject *views_name, *add_name, *slice_name;
static PyObject *op_facts; /* dict: the address of an op to the capsule of its OpFacts */

/* What the recorder knows about an op with its settings. */
typedef struct {
    PyObject *op, *kernel;
    Py_ssize_t arity;
    int by_element, has_kinks, is_view, is_variadic;
    int is_refused; /* whether it makes conditions of floats, which Python records */
} OpFacts;

static OpFacts *last_facts;

static void free_op_facts(PyObject *capsule)
{
    OpFacts *facts = PyCapsule_GetPointer(capsule, NULL);
    if (facts == last_facts)
        last_facts = NULL;
    Py_XDECREF(facts->op);
    Py_XDECREF(facts->kernel);
    PyMem_Free(facts);
}

/* Read an attribute of an op: 1 if it is true, 0 if not, -1 on an error. */
static int read_flag(PyObject *op, const char *name)
{
    PyObject *found = PyObject_GetAttrString(op, name);
    const int is_true = found == NULL ? -1 : PyObject_IsTrue(found);
    Py_XDECREF(found);
    return is_true;
}

static int fill_op_facts(OpFacts *facts, PyObject *op)
{
    PyObject *inputs = PyObject_GetAttrString(op, "inputs");
    facts->arity = inputs == NULL ? -1 : PyObject_Size(inputs);
    Py_XDECREF(inputs);
    facts->op = Py_NewRef(op);
    facts->kernel = facts->arity < 0 ? NULL : PyObject_GetAttrString(op, "kernel");
    if (facts->kernel == NULL)
        return -1;
    facts->by_element = read_flag(op, "by_element");
    facts->is_view = read_flag(op, "is_view");
    facts->is_variadic = read_flag(op, "variadic");
    facts->has_kinks = read_flag(op, "kinks");
    return PyErr_Occurred() ? -1 : 0;
}

/* Return what is known about an op; NULL on an error, and without one for an op that belongs to a single call. */
static OpFacts *facts_of_op(PyObject *op)
{
    if (last_facts != NULL && last_facts->op == op)
        return last_facts;
    PyObject *key = PyLong_FromVoidPtr(op);
    PyObject *entry = key == NULL ? NULL : PyDict_GetItemWithError(op_facts, key);
    if (entry != NULL) {
        Py_DECREF(key);
        return last_facts = PyCapsule_GetPointer(entry, NULL);
    }
    const int is_known = key != NULL && !PyErr_Occurred() && read_flag(op, "per_call") == 0;
    OpFacts *facts = is_known ? PyMem_Calloc(1, sizeof(OpFacts)) : NULL;
    PyObject *capsule = facts == NULL ? NULL : PyCapsule_New(facts, NULL, free_op_facts);
    if (capsule == NULL) {
        PyMem_Free(facts);
        Py_XDECREF(key);
        return NULL;
    }
    if (PyDict_GET_SIZE(op_facts) >= MAX_OP_FACTS)
        PyDict_Clear(op_facts);
    const int failed = fill_op_facts(facts, op) < 0 || PyDict_SetItem(op_facts, key, capsule) < 0;
    Py_DECREF(key);
    Py_DECREF(capsule); /* the dict holds it */
    return failed ? NULL : (last_facts = facts);
}

static inline int is_in_tuple(PyObject *tuple, PyObject *object)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple); k++)
        if (PyTuple_GET_ITEM(tuple, k) == object)
            return 1;
    return 0;
}

static int is_traced_value(PyObject *object)
{
    PyTypeObject *kind = Py_TYPE(object);
    const int is_known = kind == value_class || kind == traced_class || kind == traced_python_class ||
                         kind == condition_class || kind == python_condition_class;
    return is_known && SCALAR(object)->tape == running_trace.tape && SCALAR(object)->data != NULL &&
           SLOT(object, value_index) != NULL;
}

static int is_usual_array(PyObject *object)
{
    return Py_TYPE(object) == array_class && is_in_tuple(usual_dtypes, ARRAY(object)->descr);
}

static int is_usual_number(PyObject *object)
{
    if (PyFloat_CheckExact(object) || Py_TYPE(object) == float64_class)
        return 1;
    if (!PyLong_CheckExact(object))
        return 0;
    int overflow;
    const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    return !overflow && number >= -(1LL << 53) && number <= 1LL << 53;
}

/* The operands of an op: their data, with references, and the offsets of those that are values. */
typedef struct {
    PyObject *xs[MAX_ARRAY_OPERANDS];
    PyObject *sources[MAX_ARRAY_OPERANDS]; /* NULL for a literal */
    Py_ssize_t count;
} ArrayOperands;

static void clear_operands(ArrayOperands *read)
{
    for (Py_ssize_t k = 0; k < read->count; k++)
        Py_DECREF(read->xs[k]);
}

/* Read the operands: 1 if all are usual ones, 0 if not, -1 on an error; unless it is 1, there is nothing to clear. */
static int read_array_operands(PyObject *const *operands, Py_ssize_t count, ArrayOperands *read)
{
    int has_values = 0;
    for (read->count = 0; read->count < count; read->count++) {
        PyObject *operand = operands[read->count], *x = NULL;
        read->sources[read->count] = NULL;
        const int has_value = is_traced_value(operand);
        if (has_value) {
            read->sources[read->count] = SLOT(operand, value_index);
            x = Py_NewRef(SCALAR(operand)->data);
            has_values = 1;
        } else if (is_usual_number(operand)) {
            x = Py_NewRef(operand);
        } else if (is_usual_array(operand)) {
            x = PyObject_CallOneArg(ensure_owned, operand);
        }
        const int is_number = x != NULL && Py_TYPE(x) != array_class;
        if (x == NULL || (is_number ? has_value && Py_TYPE(x) != float64_class : !is_usual_array(x))) {
            Py_XDECREF(x);
            clear_operands(read);
            return PyErr_Occurred() ? -1 : 0;
        }
        read->xs[read->count] = x;
    }
    if (!has_values)
        clear_operands(read);
    return has_values;
}

/* Whether operands of an elementwise op need not be broadcast: `record._have_one_shape`. A number that is a value has
   the shape (). */
static int have_one_shape(const ArrayOperands *read)
{
    const ArrayFields *first = NULL;
    int has_numbers = 0;
    for (Py_ssize_t k = 0; k < read->count; k++) {
        if (Py_TYPE(read->xs[k]) != array_class) {
            has_numbers |= read->sources[k] != NULL;
            continue;
        }
        const ArrayFields *array = ARRAY(read->xs[k]);
        if (first == NULL)
            first = array;
        else if (array->nd != first->nd ||
                 memcmp(array->dimensions, first->dimensions, (size_t)array->nd * sizeof(Py_ssize_t)) != 0)
            return 0;
    }
    return first == NULL || !has_numbers;
}

static int is_condition(PyObject *y)
{
    const int is_number = y == numpy_true || y == numpy_false;
    return is_number || (Py_TYPE(y) == array_class && ARRAY(y)->descr == bool_dtype);
}

static int has_floats(const ArrayOperands *read)
{
    for (Py_ssize_t k = 0; k < read->count; k++) {
        PyObject *x = read->xs[k];
        if (Py_TYPE(x) == array_class ? is_in_tuple(float_dtypes, ARRAY(x)->descr) : PyFloat_Check(x))
            return 1;
    }
    return 0;
}

/* Compute an op: an array that is read-only, or a number; NULL without an error if Python has to look at it. */
static PyObject *compute_kernel(OpFacts *facts, const ArrayOperands *read)
{
    PyObject *y = PyObject_Vectorcall(facts->kernel, read->xs, (size_t)read->count, NULL);
    if (y == NULL) {
        if (PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_TypeError) ||
            PyErr_ExceptionMatches(PyExc_IndexError))
            PyErr_Clear();
        return NULL;
    }
    if (Py_TYPE(y) == array_class && ARRAY(y)->nd == 0) {
        PyObject *nowhere = PyTuple_New(0);
        PyObject *number = nowhere == NULL ? NULL : PyObject_GetItem(y, nowhere);
        Py_XDECREF(nowhere);
        Py_SETREF(y, number);
        if (y == NULL)
            return NULL;
    }
    if (Py_TYPE(y) == float64_class)
        return y;
    if (Py_TYPE(y) == array_class && is_in_tuple(float_dtypes, ARRAY(y)->descr)) {
        ARRAY(y)->flags &= ~WRITEABLE;
        return y;
    }
    /* Other ops may return floats next time: a product of whole numbers is one of them. */
    facts->is_refused = is_condition(y) && has_floats(read);
    Py_DECREF(y);
    return NULL;
}

/* Make the entry of a node: (op, sources, operands, output, mode). */
static PyObject *make_extra(const OpFacts *facts, const ArrayOperands *read, PyObject *y)
{
    PyObject *sources = PyTuple_New(read->count), *xs = PyTuple_New(read->count);
    for (Py_ssize_t k = 0; sources != NULL && xs != NULL && k < read->count; k++) {
        PyObject *source = read->sources[k] == NULL ? PyLong_FromLong(LITERAL) : Py_NewRef(read->sources[k]);
        PyTuple_SET_ITEM(sources, k, source); /* small numbers are never NULL */
        PyTuple_SET_ITEM(xs, k, Py_NewRef(read->xs[k]));
    }
    PyObject *mode = NULL;
    if (sources != NULL && xs != NULL)
        mode = facts->has_kinks ? PyObject_CallFunctionObjArgs(mode_of, facts->op, sources, NULL) : PyLong_FromLong(0);
    PyObject *extra = mode == NULL ? NULL : extra_class->tp_alloc(extra_class, 5);
    if (extra == NULL) {
        Py_XDECREF(sources);
        Py_XDECREF(xs);
        Py_XDECREF(mode);
        return NULL;
    }
    PyTuple_SET_ITEM(extra, 0, Py_NewRef(facts->op));
    PyTuple_SET_ITEM(extra, 1, sources);
    PyTuple_SET_ITEM(extra, 2, xs);
    PyTuple_SET_ITEM(extra, 3, Py_NewRef(y));
    PyTuple_SET_ITEM(extra, 4, mode);
    return extra;
}

/* Append the entry of a node to the tape; returns its offset as a Python number. Takes the reference to the entry. */
static PyObject *append_extra(PyObject *extra)
{
    PyObject *tape = running_trace.tape, *extras = SLOT(tape, tape_extras);
    PyByteArrayObject *rows = extra == NULL ? NULL : grow_tape(tape);
    PyObject *index = rows == NULL ? NULL : PyLong_FromSsize_t(Py_SIZE(rows));
    int failed = index == NULL;
    if (!failed) {
        const Py_ssize_t offset = Py_SIZE(rows);
        memcpy(extend_rows(rows), extra_row, ROW_SIZE);
        failed = PyDict_SetItem(extras, index, extra) < 0 || note_row(running_sites(), offset) < 0;
    }
    Py_XDECREF(extra);
    if (failed)
        Py_CLEAR(index);
    return index;
}

/* Remember that a result is a view of the first operand, which is an array; -1 on an error. */
static int note_view(PyObject *array, PyObject *source, PyObject *view)
{
    PyObject *views = PyObject_GetAttr(running_trace.tape, views_name);
    PyObject *done = views == NULL ? NULL : PyObject_CallMethodObjArgs(views, add_name, array, source, view, NULL);
    Py_XDECREF(views);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Record an op on read operands; NULL without an error if the Python path has to do it. */
static PyObject *record_read(OpFacts *facts, const ArrayOperands *read, PyObject *first)
{
    PyObject *y = compute_kernel(facts, read);
    if (y == NULL)
        return NULL;
    const int is_array = Py_TYPE(y) == array_class;
    PyTypeObject *kind = is_array ? value_class : traced_class;
    PyObject *value = kind->tp_alloc(kind, 0);
    PyObject *index = value == NULL ? NULL : append_extra(make_extra(facts, read, y));
    if (index == NULL) {
        Py_XDECREF(value);
        Py_DECREF(y);
        return NULL;
    }
    SCALAR(value)->data = y;
    SLOT(value, value_index) = index;
    SCALAR(value)->tape = Py_NewRef(running_trace.tape);
    if (facts->is_view && is_array && Py_TYPE(first) == value_class && note_view(first, read->sources[0], value) < 0)
        Py_CLEAR(value);
    return value;
}

/* Record an op on operands that need not be broadcast; NULL without an error if the Python path has to do it. */
static PyObject *record_alike(PyObject *op, const OpFacts *facts, const ArrayOperands *read, PyObject *first)
{
    OpFacts own = *facts;
    PyObject *value = record_read(&own, read, first);
    OpFacts *known = own.is_refused && !PyErr_Occurred() ? facts_of_op(op) : NULL;
    if (known != NULL)
        known->is_refused = 1;
    return value;
}

/* Find the shape that operands are broadcast to: 1, or 0 if they do not fit. Numbers have no axes. */
static int join_shapes(const ArrayOperands *read, Py_ssize_t *lengths, int *axes)
{
    *axes = 0;
    for (Py_ssize_t k = 0; k < read->count; k++) {
        const ArrayFields *array = Py_TYPE(read->xs[k]) == array_class ? ARRAY(read->xs[k]) : NULL;
        for (int axis = 0; array != NULL && axis < array->nd; axis++) {
            /* Lengths are counted from the last axis. */
            const Py_ssize_t length = array->dimensions[array->nd - 1 - axis];
            if (axis == MAX_AXES)
                return 0;
            if (axis == *axes)
                lengths[(*axes)++] = length;
            else if (lengths[axis] == 1)
                lengths[axis] = length;
            else if (length != 1 && length != lengths[axis])
                return 0;
        }
    }
    return 1;
}

static int has_joined_shape(PyObject *x, const Py_ssize_t *lengths, int axes)
{
    const ArrayFields *array = Py_TYPE(x) == array_class ? ARRAY(x) : NULL;
    if (array == NULL || array->nd != axes)
        return array == NULL && axes == 0;
    for (int axis = 0; axis < axes; axis++)
        if (array->dimensions[axes - 1 - axis] != lengths[axis])
            return 0;
    return 1;
}

static PyObject *record_array_op(PyObject *op, PyObject *const *operands, Py_ssize_t count);

/* Broadcast a value by a node of its own; NULL without an error if the Python path has to do it. */
static PyObject *record_spread(PyObject *operand, PyObject *x, PyObject *shape)
{
    PyObject *rank = PyLong_FromLong(Py_TYPE(x) == array_class ? ARRAY(x)->nd : 0);
    PyObject *op = rank == NULL ? NULL : PyObject_CallFunctionObjArgs(bind_spread, rank, shape, NULL);
    Py_XDECREF(rank);
    PyObject *value = op == NULL ? NULL : record_array_op(op, &operand, 1);
    Py_XDECREF(op);
    return value;
}

/* Broadcast the values among operands, as `record._spread_and_record` does, and record an op on them; NULL without an
   error if the Python path has to do it. Then nothing reads the nodes that were recorded here. */
static PyObject *spread_and_record(PyObject *op, const OpFacts *facts, PyObject *const *operands,
                                   const ArrayOperands *read)
{
    Py_ssize_t lengths[MAX_AXES];
    int axes;
    if (!join_shapes(read, lengths, &axes))
        return NULL;
    PyObject *shape = PyTuple_New(axes);
    for (int axis = 0; shape != NULL && axis < axes; axis++) {
        PyObject *length = PyLong_FromSsize_t(lengths[axes - 1 - axis]);
        if (length == NULL)
            Py_CLEAR(shape);
        else
            PyTuple_SET_ITEM(shape, axis, length);
    }
    if (shape == NULL)
        return NULL;
    ArrayOperands spread = {.count = 0};
    PyObject *values[MAX_ARRAY_OPERANDS] = {NULL}; /* those that were broadcast: they hold their offsets */
    int failed = 0;
    for (Py_ssize_t k = 0; k < read->count && !failed; k++) {
        PyObject *x = read->xs[k];
        spread.sources[k] = read->sources[k];
        if (read->sources[k] != NULL && !has_joined_shape(x, lengths, axes)) {
            values[k] = record_spread(operands[k], x, shape);
            failed = values[k] == NULL;
            x = failed ? NULL : SCALAR(values[k])->data;
            spread.sources[k] = failed ? NULL : SLOT(values[k], value_index);
        }
        if (!failed) {
            spread.xs[k] = Py_NewRef(x);
            spread.count++;
        }
    }
    PyObject *result = failed ? NULL : record_alike(op, facts, &spread, operands[0]);
    clear_operands(&spread);
    for (Py_ssize_t k = 0; k < read->count; k++)
        Py_XDECREF(values[k]);
    Py_DECREF(shape);
    return result;
}

/* Record an op on arrays of the running trace; NULL without an error if the Python path has to do it. */
static PyObject *record_array_op(PyObject *op, PyObject *const *operands, Py_ssize_t count)
{
    if (!are_arrays_known || !is_tracing() || count < 1 || count > MAX_ARRAY_OPERANDS)
        return NULL;
    const int is_plain = is_plain_trace();
    OpFacts *facts = is_plain > 0 ? facts_of_op(op) : NULL;
    if (facts == NULL || facts->is_refused || (count != facts->arity && !facts->is_variadic))
        return NULL;
    ArrayOperands read;
    if (read_array_operands(operands, count, &read) <= 0)
        return NULL;
    /* What runs meanwhile may forget what is known about the op. */
    const OpFacts own = *facts;
    const int is_alike = !own.by_element || have_one_shape(&read);
    Py_INCREF(own.op);
    Py_INCREF(own.kernel);
    PyObject *value = is_alike ? record_alike(op, &own, &read, operands[0]) : spread_and_record(op, &own, operands, &read);
    Py_DECREF(own.kernel);
    Py_DECREF(own.op);
    clear_operands(&read);
    return value;
}

/* record_array_op(op, operands): the value of an op on arrays; None if the Python path has to record it. */
static PyObject *record_array_node(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !(PyTuple_Check(args[1]) || PyList_Check(args[1]))) {
        PyErr_SetString(PyExc_TypeError, "record_array_op takes an op and its operands");
        return NULL;
    }
    PyObject *result = record_array_op(args[0], PySequence_Fast_ITEMS(args[1]), PySequence_Fast_GET_SIZE(args[1]));
    if (result == NULL && !PyErr_Occurred())
        Py_RETURN_NONE;
    return result;
}

static PyObject *index_otherwise; /* the Python method that the next one replaces */

static int is_plain_bound(PyObject *bound)
{
    return bound == Py_None || PyLong_CheckExact(bound);
}

/* Return an index that is a whole number or a slice as `encode_item` does; NULL without an error for others. */
static PyObject *encode_index(PyObject *index)
{
    if (PyLong_CheckExact(index))
        return PyTuple_Pack(1, index);
    if (!PySlice_Check(index))
        return NULL;
    const PySliceObject *slice = (PySliceObject *)index;
    if (!is_plain_bound(slice->start) || !is_plain_bound(slice->stop) || !is_plain_bound(slice->step))
        return NULL;
    PyObject *item = PyTuple_Pack(4, slice_name, slice->start, slice->stop, slice->step);
    PyObject *items = item == NULL ? NULL : PyTuple_Pack(1, item);
    Py_XDECREF(item);
    return items;
}

/* Return the op that picks elements of an array by an index; NULL without an error if the Python path has to do it. */
static PyObject *find_index_op(const ArrayFields *array, PyObject *index)
{
    PyObject *items = encode_index(index);
    PyObject *shape = items == NULL ? NULL : PyTuple_New(array->nd);
    for (int k = 0; shape != NULL && k < array->nd; k++) {
        PyObject *length = PyLong_FromSsize_t(array->dimensions[k]);
        if (length == NULL)
            Py_CLEAR(shape);
        else
            PyTuple_SET_ITEM(shape, k, length);
    }
    PyObject *op = shape == NULL ? NULL : PyObject_CallFunctionObjArgs(bind_index, items, shape, NULL);
    Py_XDECREF(items);
    Py_XDECREF(shape);
    if (op == NULL && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_IndexError))
        PyErr_Clear();
    return op;
}

/* __getitem__ of values: a whole number or a slice picks elements of an array of the running trace. */
static PyObject *index_traced_array(PyObject *self, PyObject *index)
{
    if (is_tracing() && Py_TYPE(self) == value_class && is_traced_value(self) && is_usual_array(SCALAR(self)->data)) {
        PyObject *op = find_index_op(ARRAY(SCALAR(self)->data), index);
        PyObject *result = op == NULL ? NULL : record_array_op(op, &self, 1);
        Py_XDECREF(op);
        if (result != NULL || PyErr_Occurred())
            return result;
    }
    PyObject *operands[2] = {self, index};
    return PyObject_Vectorcall(index_otherwise, operands, 2, NULL);
}

/* Whether the fields of a sample, a matrix of 2 x 3 float64 that may be written, are where they are read here. */
static int are_fields_known(PyObject *sample, PyObject *dtype)
{
    const ArrayFields *array = ARRAY(sample);
    return Py_TYPE(sample)->tp_basicsize >= (Py_ssize_t)sizeof(ArrayFields) && array->nd == 2 &&
           array->dimensions[0] == 2 && array->dimensions[1] == 3 && array->descr == dtype && array->flags & WRITEABLE;
}

/* connect_arrays(given): take what the Python side knows about arrays, and index values here. */
static PyObject *connect_arrays(PyObject *Py_UNUSED(module), PyObject *given)
{
    PyObject *sample = NULL;
    if (!PyDict_Check(given) || traced_class == NULL || take(given, "sample", NULL, &sample) < 0 ||
        take(given, "usual_dtypes", &PyTuple_Type, &usual_dtypes) < 0 ||
        take(given, "float_dtypes", &PyTuple_Type, &float_dtypes) < 0 ||
        take(given, "bool_dtype", NULL, &bool_dtype) < 0 ||
        take(given, "ensure_owned", NULL, &ensure_owned) < 0 || take(given, "mode_of", NULL, &mode_of) < 0 ||
        take(given, "bind_index", NULL, &bind_index) < 0 || take(given, "bind_spread", NULL, &bind_spread) < 0) {
        Py_XDECREF(sample);
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "connect_arrays needs a dict, after connect_traces");
        return NULL;
    }
    const int is_known = PyTuple_GET_SIZE(float_dtypes) > 0 && are_fields_known(sample, PyTuple_GET_ITEM(float_dtypes, 0));
    PyTypeObject *kind = (PyTypeObject *)Py_NewRef(Py_TYPE(sample));
    Py_DECREF(sample);
    views_name = PyUnicode_InternFromString("views");
    add_name = PyUnicode_InternFromString("add");
    slice_name = PyUnicode_InternFromString("slice");
    Py_XSETREF(op_facts, PyDict_New());
    Py_XSETREF(index_otherwise, PyObject_GetAttrString((PyObject *)value_class, "__getitem__"));
    if (views_name == NULL || add_name == NULL || slice_name == NULL || op_facts == NULL || index_otherwise == NULL ||
        (is_known && replace_method(value_class, "__getitem__", index_traced_array, METH_O) < 0)) {
        Py_DECREF(kind);
        return NULL;
    }
    Py_XSETREF(array_class, kind);
    are_arrays_known = is_known;
    return PyBool_FromLong(is_known);
}
