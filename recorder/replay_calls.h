/* Calls of compiled functions: arguments of a known structure go to native code and the results back, in one C function.

`QuickCall` is what users call. It answers a call if nothing outside has changed (`WatchList`), if the arguments have
the structure of one of its entries (`ReplayEntry`), and if a recording holds there (`ReplayProgram`). In every other case it
calls `slow`, the same in Python, which decides alone what is right. So nothing here has to be complete. Batches have
entries of their own (`batch_calls.h`).

Kept true: only objects of exactly a builtin type, or NumPy's own, are read, so reading arguments runs no user code. The
numbers are copied before the code runs, and the results before an object is made: an allocation may run any code, and
that code may call the same function. */

#define CONTIGUOUS_AND_ALIGNED 0x101 /* flags of an array */
#define OWNS_MEMORY 0x4
#define MAX_NUMBERS 512 /* of one call: they are copied to the stack */
#define GIVEN_RESULTS 2 /* a loop holds its last gradient while it asks for the next one */

enum {
    FLOAT_PART,    /* a float: its place among the numbers */
    FLOAT64_PART,  /* an np.float64 */
    SAME_PART,     /* one object: None, a bool */
    EQUAL_PART,    /* an int or a str with a value */
    LIST_PART,
    TUPLE_PART,
    DICT_PART,     /* with keys, which are strings, in this order */
    ARRAY_PART,    /* an array of float64 with a shape, C-contiguous */
    PART_KINDS
};

/* A dict that was filled, as it was then: while it has the same version, these floats are its values. */
typedef struct {
    PyObject *dict;
    uint64_t version;
    PyObject **values; /* borrowed from the dict */
} FilledDict;

typedef struct Part {
    int kind;
    Py_ssize_t count; /* of the parts, or of the numbers of an array */
    Py_ssize_t place; /* of the first number */
    PyObject *object; /* the constant, the tuple of keys, or the shape of an array */
    PyObject *extra;  /* of an array: its dtype, or the function that makes a new one; of a dict: one with its keys */
    struct Part *parts;
    int is_flat; /* whether all parts are floats whose places follow one another: they need no look at each part */
    FilledDict filled[GIVEN_RESULTS]; /* of a flat dict: the gradients that were returned last */
    int oldest;                       /* which of them is given up next */
} Part;

static void clear_part(Part *part)
{
    for (Py_ssize_t k = 0; part->parts != NULL && k < part->count; k++)
        clear_part(&part->parts[k]);
    PyMem_Free(part->parts);
    part->parts = NULL;
    for (int k = 0; k < GIVEN_RESULTS; k++) {
        PyMem_Free(part->filled[k].values);
        part->filled[k].values = NULL;
    }
    Py_CLEAR(part->object);
    Py_CLEAR(part->extra);
}

static int visit_part(const Part *part, visitproc visit, void *arg)
{
    Py_VISIT(part->object);
    Py_VISIT(part->extra);
    for (Py_ssize_t k = 0; part->parts != NULL && k < part->count; k++) {
        const int failed = visit_part(&part->parts[k], visit, arg);
        if (failed)
            return failed;
    }
    return 0;
}

/* Read a description: (kind, place, object, extra, parts), or for an array (kind, place, shape, extra, number of numbers);
   -1 on an error. */
static int read_part(PyObject *description, Part *part)
{
    PyObject *object, *extra, *parts;
    if (!PyTuple_Check(description) ||
        !PyArg_ParseTuple(description, "inOOO", &part->kind, &part->place, &object, &extra, &parts))
        return -1;
    const int has_parts = part->kind == LIST_PART || part->kind == TUPLE_PART || part->kind == DICT_PART;
    if (part->kind < 0 || part->kind >= PART_KINDS || part->place < 0 || part->place > MAX_NUMBERS ||
        (has_parts && !PyTuple_Check(parts)) ||
        (part->kind == DICT_PART && !(PyTuple_Check(object) && PyDict_CheckExact(extra))) ||
        (part->kind == ARRAY_PART && !PyTuple_Check(object))) {
        PyErr_SetString(PyExc_ValueError, "a description of arguments is wrong");
        return -1;
    }
    part->object = Py_NewRef(object);
    part->extra = Py_NewRef(extra);
    part->count = part->kind == ARRAY_PART ? PyLong_AsSsize_t(parts) : has_parts ? PyTuple_GET_SIZE(parts) : 1;
    if (part->count < 0 || part->place + (has_parts ? 0 : part->count) > MAX_NUMBERS ||
        (part->kind == DICT_PART && PyTuple_GET_SIZE(object) != part->count)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "a description of arguments is wrong");
        return -1;
    }
    if (!has_parts)
        return 0;
    const Py_ssize_t count = part->count;
    part->count = 0;
    part->parts = PyMem_Calloc((size_t)(count == 0 ? 1 : count), sizeof(Part));
    if (part->parts == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (; part->count < count; part->count++)
        if (read_part(PyTuple_GET_ITEM(parts, part->count), &part->parts[part->count]) < 0) {
            part->count++; /* the part that is half read is cleared too */
            return -1;
        }
    part->is_flat = count > 0;
    for (Py_ssize_t k = 0; k < count; k++)
        if (part->parts[k].kind != FLOAT_PART || part->parts[k].place != part->parts[0].place + k)
            part->is_flat = 0;
    return 0;
}

/* The number of numbers up to the last one that a part reads. */
static Py_ssize_t count_numbers(const Part *part)
{
    if (part->parts == NULL)
        return part->kind == SAME_PART || part->kind == EQUAL_PART ? 0 : part->place + part->count;
    Py_ssize_t most = 0;
    for (Py_ssize_t k = 0; k < part->count; k++) {
        const Py_ssize_t count = count_numbers(&part->parts[k]);
        most = count > most ? count : most;
    }
    return most;
}

static int has_shape(const ArrayFields *array, PyObject *shape)
{
    if (array->nd != PyTuple_GET_SIZE(shape))
        return 0;
    for (int k = 0; k < array->nd; k++)
        if (array->dimensions[k] != PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, k)))
            return 0;
    return 1;
}

static int is_same_text(PyObject *one, PyObject *two)
{
    return one == two || (PyUnicode_CheckExact(one) && PyUnicode_Compare(one, two) == 0);
}

static int is_equal_constant(PyObject *thing, PyObject *constant)
{
    if (thing == constant)
        return 1;
    if (Py_TYPE(thing) != Py_TYPE(constant))
        return 0;
    if (PyUnicode_CheckExact(thing))
        return PyUnicode_Compare(thing, constant) == 0;
    return PyLong_CheckExact(thing) && PyObject_RichCompareBool(thing, constant, Py_EQ) == 1;
}

static PyObject *float64_dtype;
static int parse_parts(const Part *part, PyObject *const *items, double *numbers);

/* Copy the numbers of an argument; 0 if it has another structure. No Python code runs. */
static int parse_part(const Part *part, PyObject *thing, double *numbers)
{
    switch (part->kind) {
    case FLOAT_PART:
        if (!PyFloat_CheckExact(thing))
            return 0;
        numbers[part->place] = PyFloat_AS_DOUBLE(thing);
        return 1;
    case FLOAT64_PART: /* it has the memory of a float */
        if (Py_TYPE(thing) != float64_class)
            return 0;
        numbers[part->place] = PyFloat_AS_DOUBLE(thing);
        return 1;
    case SAME_PART:
        return thing == part->object;
    case EQUAL_PART:
        return is_equal_constant(thing, part->object);
    case LIST_PART:
        return PyList_CheckExact(thing) && PyList_GET_SIZE(thing) == part->count &&
               parse_parts(part, ((PyListObject *)thing)->ob_item, numbers);
    case TUPLE_PART:
        return PyTuple_CheckExact(thing) && PyTuple_GET_SIZE(thing) == part->count &&
               parse_parts(part, ((PyTupleObject *)thing)->ob_item, numbers);
    case DICT_PART: {
        if (!PyDict_CheckExact(thing) || PyDict_GET_SIZE(thing) != part->count)
            return 0;
        Py_ssize_t position = 0;
        PyObject *key, *value;
        PyObject *const *keys = ((PyTupleObject *)part->object)->ob_item;
        double *flat = part->is_flat ? numbers + part->parts[0].place : NULL;
        for (Py_ssize_t k = 0; k < part->count && PyDict_Next(thing, &position, &key, &value); k++) {
            if (key != keys[k] && !is_same_text(key, keys[k]))
                return 0;
            if (flat != NULL && PyFloat_CheckExact(value))
                flat[k] = PyFloat_AS_DOUBLE(value);
            else if (!parse_part(&part->parts[k], value, numbers))
                return 0;
        }
        return 1;
    }
    default: {
        const ArrayFields *array = (const ArrayFields *)thing;
        if (Py_TYPE(thing) != array_class || array->descr != part->extra ||
            (array->flags & CONTIGUOUS_AND_ALIGNED) != CONTIGUOUS_AND_ALIGNED || !has_shape(array, part->object))
            return 0;
        memcpy(numbers + part->place, array->data, (size_t)part->count * sizeof(double));
        return 1;
    }
    }
}

static int parse_parts(const Part *part, PyObject *const *items, double *numbers)
{
    if (part->is_flat) {
        double *flat = numbers + part->parts[0].place;
        for (Py_ssize_t k = 0; k < part->count; k++) {
            if (!PyFloat_CheckExact(items[k]))
                return 0;
            flat[k] = PyFloat_AS_DOUBLE(items[k]);
        }
        return 1;
    }
    for (Py_ssize_t k = 0; k < part->count; k++)
        if (!parse_part(&part->parts[k], items[k], numbers))
            return 0;
    return 1;
}

/* A gradient in the structure of an argument, or a result in its own; NULL on an error. */
static PyObject *build_part(const Part *part, const double *slopes)
{
    PyObject *built = NULL;
    switch (part->kind) {
    case FLOAT_PART:
        return PyFloat_FromDouble(slopes[part->place]);
    case SAME_PART:
        return Py_NewRef(part->object);
    case ARRAY_PART:
        built = PyObject_CallNoArgs(part->extra);
        if (built != NULL)
            memcpy(((ArrayFields *)built)->data, slopes + part->place, (size_t)part->count * sizeof(double));
        return built;
    case LIST_PART:
        built = PyList_New(part->count);
        break;
    case TUPLE_PART:
        built = PyTuple_New(part->count);
        break;
    case DICT_PART: /* a copy has the keys already, which is faster than adding them one by one */
        built = PyDict_Copy(part->extra);
        break;
    default:
        PyErr_SetString(PyExc_ValueError, "a gradient has no such part");
    }
    for (Py_ssize_t k = 0; built != NULL && k < part->count; k++) {
        PyObject *item = build_part(&part->parts[k], slopes);
        if (item == NULL)
            Py_CLEAR(built);
        else if (part->kind == LIST_PART)
            PyList_SET_ITEM(built, k, item);
        else if (part->kind == TUPLE_PART)
            PyTuple_SET_ITEM(built, k, item);
        else {
            const int failed = PyDict_SetItem(built, PyTuple_GET_ITEM(part->object, k), item);
            Py_DECREF(item);
            if (failed)
                Py_CLEAR(built);
        }
    }
    return built;
}

/* Whether a gradient is an array, or a container with floats and arrays in it, that can be filled again. Tuples keep their
   hash from Python 3.14 on, so they are made anew there. */
static int is_refillable(const Part *part)
{
    if (part->kind == FLOAT_PART || part->kind == SAME_PART || part->kind == ARRAY_PART)
        return 1;
    if (part->parts == NULL || (part->kind == TUPLE_PART && PY_VERSION_HEX >= 0x030E0000))
        return 0;
    for (Py_ssize_t k = 0; k < part->count; k++)
        if (!is_refillable(&part->parts[k]))
            return 0;
    return 1;
}

static int refill_part(Part *part, PyObject *thing, const double *slopes);

static inline int refill_float(PyObject *thing, double number)
{
    if (Py_REFCNT(thing) != 1 || !PyFloat_CheckExact(thing))
        return 0;
    ((PyFloatObject *)thing)->ob_fval = number;
    return 1;
}

static int refill_items(Part *part, PyObject *const *items, const double *slopes)
{
    if (part->is_flat) {
        const double *flat = slopes + part->parts[0].place;
        for (Py_ssize_t k = 0; k < part->count; k++)
            if (!refill_float(items[k], flat[k]))
                return 0;
        return 1;
    }
    for (Py_ssize_t k = 0; k < part->count; k++)
        if (!refill_part(&part->parts[k], items[k], slopes))
            return 0;
    return 1;
}

static int has_weak_references(PyObject *thing)
{
    const Py_ssize_t offset = Py_TYPE(thing)->tp_weaklistoffset;
    return offset > 0 && *(PyObject **)((char *)thing + offset) != NULL;
}

/* An array that somebody has a view of has another reference. */
static int refill_array(const Part *part, PyObject *thing, const double *slopes)
{
    const ArrayFields *array = (const ArrayFields *)thing;
    const int flags = CONTIGUOUS_AND_ALIGNED | WRITEABLE | OWNS_MEMORY;
    if (Py_TYPE(thing) != array_class || array->descr != float64_dtype || (array->flags & flags) != flags ||
        !has_shape(array, part->object) || has_weak_references(thing))
        return 0;
    memcpy(array->data, slopes + part->place, (size_t)part->count * sizeof(double));
    return 1;
}

#if PY_VERSION_HEX < 0x030E0000
/* Every change of a dict gives it a version that no dict had before; the field is deprecated from 3.12 on and gone in 3.14. */
static inline uint64_t read_version(PyObject *dict)
{
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#endif
    return ((PyDictObject *)dict)->ma_version_tag;
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
}

/* The version of a dict that has all its values in its own table; 0 for the attributes of most objects, which Python can
   change elsewhere. */
static inline uint64_t read_whole_version(PyObject *dict)
{
    return ((PyDictObject *)dict)->ma_values == NULL ? read_version(dict) : 0;
}

/* The values of a flat dict, if it was filled before and has not been changed since; else NULL. Walking through a dict takes
   longer than all else that is done to its floats. */
static PyObject *const *find_filled(const Part *part, PyObject *dict)
{
    for (int k = 0; k < GIVEN_RESULTS; k++)
        if (part->filled[k].dict == dict && part->filled[k].version == read_version(dict))
            return part->filled[k].values;
    return NULL;
}

/* Note the values of a flat dict that has just been filled. Without memory for them nothing is noted. */
static void note_filled(Part *part, PyObject *dict)
{
    FilledDict *filled = &part->filled[part->oldest];
    if (filled->values == NULL)
        filled->values = PyMem_Calloc((size_t)part->count, sizeof(PyObject *));
    if (filled->values == NULL)
        return;
    Py_ssize_t position = 0;
    for (Py_ssize_t k = 0; k < part->count; k++)
        PyDict_Next(dict, &position, NULL, &filled->values[k]);
    filled->dict = dict;
    filled->version = read_version(dict);
    part->oldest = (part->oldest + 1) % GIVEN_RESULTS;
}
#else
static inline uint64_t read_whole_version(PyObject *dict)
{
    (void)dict;
    return 0;
}

static PyObject *const *find_filled(const Part *part, PyObject *dict)
{
    return NULL;
}

static void note_filled(Part *part, PyObject *dict)
{
}
#endif

static int refill_flat_dict(Part *part, PyObject *dict, const double *flat)
{
    PyObject *const *values = find_filled(part, dict);
    if (values != NULL) {
        for (Py_ssize_t k = 0; k < part->count; k++)
            if (!refill_float(values[k], flat[k]))
                return 0;
        return 1;
    }
    Py_ssize_t position = 0;
    PyObject *key, *value;
    PyObject *const *keys = ((PyTupleObject *)part->object)->ob_item;
    for (Py_ssize_t k = 0; k < part->count && PyDict_Next(dict, &position, &key, &value); k++)
        if (key != keys[k] || !refill_float(value, flat[k]))
            return 0;
    note_filled(part, dict);
    return 1;
}

/* Write other numbers into the floats of a gradient that was returned before. 0 if one of its parts is in use elsewhere or
   was replaced; what was written by then is seen by nobody. */
static int refill_part(Part *part, PyObject *thing, const double *slopes)
{
    if (part->kind == SAME_PART)
        return thing == part->object;
    if (Py_REFCNT(thing) != 1)
        return 0;
    switch (part->kind) {
    case FLOAT_PART:
        return refill_float(thing, slopes[part->place]);
    case LIST_PART:
        return PyList_CheckExact(thing) && PyList_GET_SIZE(thing) == part->count &&
               refill_items(part, ((PyListObject *)thing)->ob_item, slopes);
    case TUPLE_PART:
        return PyTuple_CheckExact(thing) && PyTuple_GET_SIZE(thing) == part->count &&
               refill_items(part, ((PyTupleObject *)thing)->ob_item, slopes);
    case DICT_PART: {
        if (!PyDict_CheckExact(thing) || PyDict_GET_SIZE(thing) != part->count)
            return 0;
        if (part->is_flat)
            return refill_flat_dict(part, thing, slopes + part->parts[0].place);
        Py_ssize_t position = 0;
        PyObject *key, *value;
        PyObject *const *keys = ((PyTupleObject *)part->object)->ob_item;
        for (Py_ssize_t k = 0; k < part->count && PyDict_Next(thing, &position, &key, &value); k++)
            if (key != keys[k] || !refill_part(&part->parts[k], value, slopes))
                return 0;
        return 1;
    }
    case ARRAY_PART:
        return refill_array(part, thing, slopes);
    default:
        return 0;
    }
}

/* The gradients or results of one structure that were returned last: used again once nobody else has them. */
typedef struct {
    PyObject *given[GIVEN_RESULTS];
    int oldest; /* which of them is given up next */
    char is_used;
} KeptResults;

static void start_keeping(KeptResults *kept, const Part *part)
{
    kept->is_used = (part->parts != NULL || part->kind == ARRAY_PART) && is_refillable(part);
}

static void clear_kept(KeptResults *kept)
{
    for (int k = 0; k < GIVEN_RESULTS; k++)
        Py_CLEAR(kept->given[k]);
}

static int visit_kept(const KeptResults *kept, visitproc visit, void *arg)
{
    for (int k = 0; k < GIVEN_RESULTS; k++)
        Py_VISIT(kept->given[k]);
    return 0;
}

/* Numbers in a structure: one that was returned before and is no longer used, or a new one; NULL on an error. */
static PyObject *make_result(Part *part, KeptResults *kept, const double *numbers)
{
    if (!kept->is_used)
        return build_part(part, numbers);
    for (int k = 0; k < GIVEN_RESULTS; k++)
        if (kept->given[k] != NULL && refill_part(part, kept->given[k], numbers))
            return Py_NewRef(kept->given[k]);
    PyObject *result = build_part(part, numbers);
    if (result != NULL) {
        PyObject *before = kept->given[kept->oldest];
        kept->given[kept->oldest] = Py_NewRef(result);
        kept->oldest = (kept->oldest + 1) % GIVEN_RESULTS;
        Py_XDECREF(before);
    }
    return result;
}

/* ---- Programs ---- */

/* What `builtin_calls.ReplayFields` is in Python. */
typedef struct {
    void *code;
    double *buffer;
    void (*enter)(void *, void *);
    int64_t inputs, results, slopes, checks;
    const int64_t *expected;
    void *other_type;
} ReplayFields;

typedef struct {
    PyObject_HEAD
    const ReplayFields *fields;
    PyObject *held;     /* keeps the fields alive, and what they refer to */
    PyObject *siblings; /* dict: the number of a check to the program to try where it fails */
    Part result;        /* the structure of the results; of a kind that is PART_KINDS if the only result is a float */
    KeptResults kept;
    Py_ssize_t hits;
} ReplayProgram;

static PyTypeObject *program_class, *entry_class, *watches_class, *quick_class;

/* ReplayProgram(address of its fields, what keeps them alive, structure of the results or None) */
static int program_init(ReplayProgram *self, PyObject *args, PyObject *keywords)
{
    PyObject *address, *held, *result;
    if (keywords != NULL || self->held != NULL || !PyArg_ParseTuple(args, "OOO", &address, &held, &result)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a program is made once, without keywords");
        return -1;
    }
    self->fields = PyLong_AsVoidPtr(address);
    if (self->fields == NULL)
        return -1;
    self->result.kind = PART_KINDS;
    if (result != Py_None && read_part(result, &self->result) < 0)
        return -1;
    if (result != Py_None && count_numbers(&self->result) > self->fields->results) {
        PyErr_SetString(PyExc_ValueError, "a description of results has more numbers than there are");
        return -1;
    }
    start_keeping(&self->kept, &self->result);
    self->held = Py_NewRef(held);
    self->siblings = PyDict_New();
    return self->siblings == NULL ? -1 : 0;
}

static int program_traverse(ReplayProgram *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->held);
    Py_VISIT(self->siblings);
    const int failed = visit_kept(&self->kept, visit, arg);
    return failed ? failed : visit_part(&self->result, visit, arg);
}

static int program_clear(ReplayProgram *self)
{
    self->fields = NULL;
    Py_CLEAR(self->held);
    Py_CLEAR(self->siblings);
    clear_kept(&self->kept);
    clear_part(&self->result);
    return 0;
}

static void free_object(PyObject *self, int (*clear)(PyObject *))
{
    PyTypeObject *kind = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    clear(self);
    kind->tp_free(self);
    Py_DECREF(kind);
}

static void program_dealloc(PyObject *self)
{
    free_object(self, (int (*)(PyObject *))program_clear);
}

static PyMemberDef program_members[] = {
    {"siblings", T_OBJECT, offsetof(ReplayProgram, siblings), READONLY, "The program to try where a check fails."},
    {"hits", T_PYSSIZET, offsetof(ReplayProgram, hits), READONLY, "The number of calls that it answered."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot program_slots[] = {
    {Py_tp_doc, "The native code of one recording."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, program_init},
    {Py_tp_dealloc, program_dealloc},
    {Py_tp_traverse, program_traverse},
    {Py_tp_clear, program_clear},
    {Py_tp_members, program_members},
    {0, NULL},
};

static PyType_Spec program_spec = {
    .name = "wiregrad._recorder.ReplayProgram",
    .basicsize = sizeof(ReplayProgram),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = program_slots,
};

enum { ALL_HOLD = -1 };

/* Run a program at a point; returns the number of the first check that does not hold, or ALL_HOLD. */
static int64_t run_replay(const ReplayFields *fields, const double *numbers)
{
    memcpy(fields->buffer, numbers, (size_t)fields->inputs * sizeof(double));
    fields->enter(fields->code, fields->buffer);
    const double *checked = fields->buffer + fields->inputs + fields->results;
    for (int64_t k = 0; k < fields->checks; k++)
        if (memcmp(checked + k, fields->expected + k, sizeof(double)) != 0)
            return k;
    return ALL_HOLD;
}

/* ---- Entries ---- */

typedef struct {
    PyObject_HEAD
    Part arguments; /* a tuple */
    Part gradient;  /* of a kind that is PART_KINDS if only the value is asked for */
    Py_ssize_t numbers;
    ReplayProgram *root, *recent;
    KeptResults kept;
} ReplayEntry;

/* ReplayEntry(arguments, gradient or None, number of numbers, root, recent) */
static int entry_init(ReplayEntry *self, PyObject *args, PyObject *keywords)
{
    PyObject *arguments, *gradient;
    ReplayProgram *root, *recent;
    if (keywords != NULL || self->root != NULL) {
        PyErr_SetString(PyExc_TypeError, "an entry is made once, without keywords");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "OOnO!O!", &arguments, &gradient, &self->numbers, program_class, &root, program_class,
                          &recent))
        return -1;
    self->gradient.kind = PART_KINDS;
    if (read_part(arguments, &self->arguments) < 0 || (gradient != Py_None && read_part(gradient, &self->gradient) < 0))
        return -1;
    if (self->arguments.kind != TUPLE_PART || self->numbers < 0 || self->numbers > MAX_NUMBERS) {
        PyErr_SetString(PyExc_ValueError, "an entry needs a tuple of arguments");
        return -1;
    }
    self->root = (ReplayProgram *)Py_NewRef(root);
    self->recent = (ReplayProgram *)Py_NewRef(recent);
    start_keeping(&self->kept, &self->gradient);
    return 0;
}

static int entry_traverse(ReplayEntry *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->root);
    Py_VISIT(self->recent);
    int failed = visit_kept(&self->kept, visit, arg);
    failed = failed ? failed : visit_part(&self->arguments, visit, arg);
    return failed ? failed : visit_part(&self->gradient, visit, arg);
}

static int entry_clear(ReplayEntry *self)
{
    Py_CLEAR(self->root);
    Py_CLEAR(self->recent);
    clear_kept(&self->kept);
    clear_part(&self->arguments);
    clear_part(&self->gradient);
    return 0;
}

static void entry_dealloc(PyObject *self)
{
    free_object(self, (int (*)(PyObject *))entry_clear);
}

static PyType_Slot entry_slots[] = {
    {Py_tp_doc, "A structure of arguments, and the programs for calls of this kind."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, entry_init},
    {Py_tp_dealloc, entry_dealloc},
    {Py_tp_traverse, entry_traverse},
    {Py_tp_clear, entry_clear},
    {0, NULL},
};

static PyType_Spec entry_spec = {
    .name = "wiregrad._recorder.ReplayEntry",
    .basicsize = sizeof(ReplayEntry),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = entry_slots,
};

/* Whether a program has as many inputs as the entry has numbers, and as many results as it gives back. The slopes are
   behind the checks, or results like the value. */
static int fits_entry(const ReplayEntry *entry, const ReplayProgram *program)
{
    const ReplayFields *fields = program->fields;
    if (fields == NULL || fields->inputs != entry->numbers)
        return 0;
    if (program->result.kind != PART_KINDS)
        return entry->gradient.kind == PART_KINDS && fields->slopes == 0 && fields->results >= 1 &&
               fields->results <= MAX_NUMBERS;
    const int64_t slopes = entry->gradient.kind == PART_KINDS ? 0 : entry->numbers;
    return (fields->results == 1 && fields->slopes == slopes) || (fields->results == 1 + slopes && fields->slopes == 0);
}

/* The program that holds at a point, after it has run; NULL without an error if there is none. `missed` is set where a
   check failed after which nothing was recorded. */
static ReplayProgram *find_program(ReplayEntry *entry, const double *numbers, int *missed)
{
    ReplayProgram *program = entry->recent;
    if (program == NULL || !fits_entry(entry, program))
        return NULL;
    int64_t check = run_replay(program->fields, numbers);
    if (check == ALL_HOLD)
        return program;
    if (program != entry->root) {
        program = entry->root;
        if (!fits_entry(entry, program))
            return NULL;
        check = run_replay(program->fields, numbers);
    }
    while (check != ALL_HOLD) {
        PyObject *key = PyLong_FromLongLong(check);
        PyObject *next = key == NULL ? NULL : PyDict_GetItemWithError(program->siblings, key);
        Py_XDECREF(key);
        *missed = next == NULL && !PyErr_Occurred();
        if (next == NULL || Py_TYPE(next) != program_class || !fits_entry(entry, (ReplayProgram *)next))
            return NULL;
        program = (ReplayProgram *)next;
        check = run_replay(program->fields, numbers);
    }
    Py_INCREF(program);
    Py_SETREF(entry->recent, program);
    return program;
}

/* The answer to a call; NULL without an error if the entry has none. */
static PyObject *answer_entry(ReplayEntry *entry, PyObject *const *args, int *missed)
{
    double numbers[MAX_NUMBERS], results[MAX_NUMBERS + 1];
    if (!parse_parts(&entry->arguments, args, numbers))
        return NULL;
    ReplayProgram *program = find_program(entry, numbers, missed);
    if (program == NULL)
        return NULL;
    const ReplayFields *fields = program->fields;
    const double *outputs = fields->buffer + fields->inputs;
    results[0] = outputs[0];
    const int64_t gap = fields->slopes == 0 ? 0 : fields->checks;
    memcpy(results + 1, outputs + 1 + gap, (size_t)(fields->results - 1 + fields->slopes) * sizeof(double));
    program->hits++;
    if (program->result.kind != PART_KINDS)
        return make_result(&program->result, &program->kept, results);
    PyObject *value = PyFloat_FromDouble(results[0]);
    if (value == NULL || entry->gradient.kind == PART_KINDS)
        return value;
    PyObject *pair = PyTuple_New(2);
    PyObject *gradient = pair == NULL ? NULL : make_result(&entry->gradient, &entry->kept, results + 1);
    if (gradient == NULL) {
        Py_XDECREF(pair);
        Py_DECREF(value);
        return NULL;
    }
    PyTuple_SET_ITEM(pair, 0, value);
    PyTuple_SET_ITEM(pair, 1, gradient);
    return pair;
}

/* ---- What is read from outside ---- */

enum {
    VARIABLE_WATCH, /* dict, name, the object it refers to; without it if there is none */
    CELL_WATCH,     /* cell, its contents */
    FUNCTION_WATCH, /* function, code, defaults, keyword defaults, number of attributes */
    MODULE_WATCH,   /* module: its class */
    LIST_WATCH,     /* list, tuple of its elements */
    DICT_WATCH,     /* dict, tuple of its keys, tuple of its values */
    OBJECT_WATCH,   /* object, its class, tuple of the names of its attributes, tuple of those values that are read */
    ARRAY_WATCH,    /* array, dtype, shape, strides, whether it is writeable, its bytes */
    CLASS_WATCH,    /* class, its class, its bases, tuple of the names of its attributes, tuple of those that are read */
    OTHER_WATCH,    /* a function that returns whether something has changed */
    WATCH_KINDS
};
#define WATCH_PARTS 6

typedef struct {
    int kind;
    uint64_t version; /* of the dict of a variable when the variable was last found unchanged; 0 if it is not known */
    PyObject *parts[WATCH_PARTS];
} Watch;

typedef struct {
    PyObject_HEAD
    Py_ssize_t count;
    Watch *watches;
    PyObject *absent; /* stands for a value that is not there, or that is not read */
} WatchList;

static int watches_clear(WatchList *self)
{
    const Py_ssize_t count = self->count;
    self->count = 0;
    for (Py_ssize_t k = 0; k < count; k++)
        for (int j = 0; j < WATCH_PARTS; j++)
            Py_CLEAR(self->watches[k].parts[j]);
    PyMem_Free(self->watches);
    self->watches = NULL;
    Py_CLEAR(self->absent);
    return 0;
}

/* Whether the parts of a watch have the types that it needs. */
static int is_sound_watch(const Watch *watch, Py_ssize_t parts)
{
    static const Py_ssize_t PART_COUNTS[WATCH_KINDS] = {3, 2, 5, 1, 2, 3, 4, 6, 5, 1};
    if (watch->kind < 0 || watch->kind >= WATCH_KINDS || parts != PART_COUNTS[watch->kind])
        return 0;
    PyObject *const *p = watch->parts;
    switch (watch->kind) {
    case VARIABLE_WATCH:
        return PyDict_Check(p[0]) && PyUnicode_CheckExact(p[1]);
    case CELL_WATCH:
        return PyCell_Check(p[0]);
    case FUNCTION_WATCH:
        return PyFunction_Check(p[0]) && PyLong_Check(p[4]);
    case LIST_WATCH:
        return PyList_CheckExact(p[0]) && PyTuple_CheckExact(p[1]);
    case DICT_WATCH:
        return PyDict_CheckExact(p[0]) && PyTuple_CheckExact(p[1]) && PyTuple_CheckExact(p[2]) &&
               PyTuple_GET_SIZE(p[1]) == PyTuple_GET_SIZE(p[2]);
    case OBJECT_WATCH:
        return PyTuple_CheckExact(p[2]) && PyTuple_CheckExact(p[3]) && PyTuple_GET_SIZE(p[2]) == PyTuple_GET_SIZE(p[3]);
    case ARRAY_WATCH:
        return Py_TYPE(p[0]) == array_class && PyTuple_CheckExact(p[2]) && PyTuple_CheckExact(p[3]) &&
               PyTuple_GET_SIZE(p[2]) == PyTuple_GET_SIZE(p[3]) && PyBytes_CheckExact(p[5]);
    case CLASS_WATCH:
        return PyType_Check(p[0]) && (((PyTypeObject *)p[0])->tp_flags & Py_TPFLAGS_HEAPTYPE) && PyTuple_CheckExact(p[3]) &&
               PyTuple_CheckExact(p[4]) && PyTuple_GET_SIZE(p[3]) == PyTuple_GET_SIZE(p[4]);
    default:
        return 1;
    }
}

/* WatchList(list of tuples, absent) */
static int watches_init(WatchList *self, PyObject *args, PyObject *keywords)
{
    PyObject *list, *absent;
    if (keywords != NULL || self->absent != NULL || !PyArg_ParseTuple(args, "O!O", &PyList_Type, &list, &absent)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a list of watches is made once, without keywords");
        return -1;
    }
    self->absent = Py_NewRef(absent);
    const Py_ssize_t count = PyList_GET_SIZE(list);
    self->watches = PyMem_Calloc((size_t)count + 1, sizeof(Watch));
    if (self->watches == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *item = PyList_GET_ITEM(list, k);
        const Py_ssize_t parts = PyTuple_CheckExact(item) ? PyTuple_GET_SIZE(item) - 1 : -1;
        Watch *watch = &self->watches[k];
        self->count = k + 1;
        if (parts >= 0 && parts <= WATCH_PARTS) {
            watch->kind = (int)PyLong_AsLong(PyTuple_GET_ITEM(item, 0));
            for (Py_ssize_t j = 0; j < parts; j++)
                watch->parts[j] = Py_NewRef(PyTuple_GET_ITEM(item, j + 1));
        }
        if (PyErr_Occurred() || !is_sound_watch(watch, parts)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "a description of a watch is wrong");
            return -1;
        }
    }
    return 0;
}

static int watches_traverse(WatchList *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->absent);
    for (Py_ssize_t k = 0; k < self->count; k++)
        for (int j = 0; j < WATCH_PARTS; j++)
            Py_VISIT(self->watches[k].parts[j]);
    return 0;
}

static void watches_dealloc(PyObject *self)
{
    free_object(self, (int (*)(PyObject *))watches_clear);
}

static PyObject *none_if_null(PyObject *thing)
{
    return thing == NULL ? Py_None : thing;
}

static int has_function_changed(PyObject *const *p)
{
    PyFunctionObject *function = (PyFunctionObject *)p[0];
    const Py_ssize_t attributes = function->func_dict == NULL ? 0 : PyDict_GET_SIZE(function->func_dict);
    return function->func_code != p[1] || none_if_null(function->func_defaults) != p[2] ||
           none_if_null(function->func_kwdefaults) != p[3] || attributes != PyLong_AsSsize_t(p[4]);
}

/* Whether a dict has other keys or values than before, or in another order; a value that is `absent` is not compared. */
static int has_dict_changed(PyObject *dict, PyObject *keys, PyObject *values, PyObject *absent)
{
    const Py_ssize_t count = PyTuple_GET_SIZE(keys);
    if (PyDict_GET_SIZE(dict) != count)
        return 1;
    Py_ssize_t position = 0;
    PyObject *key, *value;
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *before = PyTuple_GET_ITEM(values, k);
        if (!PyDict_Next(dict, &position, &key, &value) || (before != absent && value != before))
            return 1;
        PyObject *name = PyTuple_GET_ITEM(keys, k);
        if (key != name && !(absent != NULL && PyUnicode_CheckExact(name) && is_same_text(key, name)))
            return 1;
    }
    return 0;
}

static int has_object_changed(PyObject *const *p, PyObject *absent)
{
    if ((PyObject *)Py_TYPE(p[0]) != p[1])
        return 1;
    PyObject *attributes = PyObject_GenericGetDict(p[0], NULL);
    if (attributes == NULL) { /* all attributes of its class are slots, so it never has others */
        PyErr_Clear();
        return PyTuple_GET_SIZE(p[2]) != 0;
    }
    const int changed = !PyDict_Check(attributes) || has_dict_changed(attributes, p[2], p[3], absent);
    Py_DECREF(attributes);
    return changed;
}

static int has_class_changed(PyObject *const *p, PyObject *absent)
{
    const PyTypeObject *owner = (const PyTypeObject *)p[0];
    return (PyObject *)Py_TYPE(p[0]) != p[1] || owner->tp_mro != p[2] || owner->tp_dict == NULL ||
           has_dict_changed(owner->tp_dict, p[3], p[4], absent);
}

static int has_array_changed(PyObject *const *p)
{
    const ArrayFields *array = (const ArrayFields *)p[0];
    if (array->descr != p[1] || !has_shape(array, p[2]) ||
        (array->flags & WRITEABLE ? Py_True : Py_False) != p[4])
        return 1;
    for (int k = 0; k < array->nd; k++)
        if (array->strides[k] != PyLong_AsSsize_t(PyTuple_GET_ITEM(p[3], k)))
            return 1;
    return memcmp(array->data, PyBytes_AS_STRING(p[5]), (size_t)PyBytes_GET_SIZE(p[5])) != 0;
}

static int has_list_changed(PyObject *const *p)
{
    const Py_ssize_t count = PyTuple_GET_SIZE(p[1]);
    return PyList_GET_SIZE(p[0]) != count || memcmp(((PyListObject *)p[0])->ob_item, ((PyTupleObject *)p[1])->ob_item,
                                                    (size_t)count * sizeof(PyObject *)) != 0;
}

/* While a dict has the same version, nothing in it has changed; looking a name up takes ten times as long. */
static int has_variable_changed(Watch *watch, PyObject *absent)
{
    PyObject *const *p = watch->parts;
    const uint64_t version = read_whole_version(p[0]);
    if (version != 0 && version == watch->version)
        return 0;
    PyObject *found = PyDict_GetItemWithError(p[0], p[1]);
    const int changed = (found == NULL ? absent : found) != p[2];
    watch->version = changed ? 0 : version;
    return changed;
}

static int has_watch_changed(Watch *watch, PyObject *absent)
{
    PyObject *const *p = watch->parts;
    switch (watch->kind) {
    case VARIABLE_WATCH:
        return has_variable_changed(watch, absent);
    case CELL_WATCH: {
        PyObject *found = PyCell_GET(p[0]);
        return (found == NULL ? absent : found) != p[1];
    }
    case FUNCTION_WATCH:
        return has_function_changed(p);
    case MODULE_WATCH:
        return Py_TYPE(p[0]) != &PyModule_Type;
    case LIST_WATCH:
        return PyTuple_GET_SIZE(p[1]) == 0 ? PyList_GET_SIZE(p[0]) != 0 : has_list_changed(p);
    case DICT_WATCH:
        return has_dict_changed(p[0], p[1], p[2], NULL);
    case OBJECT_WATCH:
        return has_object_changed(p, absent);
    case ARRAY_WATCH:
        return has_array_changed(p);
    case CLASS_WATCH:
        return has_class_changed(p, absent);
    default: {
        PyObject *changed = PyObject_CallNoArgs(p[0]);
        const int is_same = changed == Py_False;
        Py_XDECREF(changed);
        return !is_same;
    }
    }
}

/* Whether something has changed, or may have; an error counts as a change. */
static int has_any_changed(WatchList *self)
{
    for (Py_ssize_t k = 0; k < self->count; k++)
        if (has_watch_changed(&self->watches[k], self->absent)) {
            PyErr_Clear();
            return 1;
        }
    PyErr_Clear();
    return 0;
}

static PyObject *watches_changed(WatchList *self, PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(has_any_changed(self));
}

static PyMethodDef watches_methods[] = {
    {"has_changed", (PyCFunction)watches_changed, METH_NOARGS, "Return whether something has changed, or may have."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot watches_slots[] = {
    {Py_tp_doc, "What a function reads from outside, as it was when the function was recorded."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, watches_init},
    {Py_tp_dealloc, watches_dealloc},
    {Py_tp_traverse, watches_traverse},
    {Py_tp_clear, watches_clear},
    {Py_tp_methods, watches_methods},
    {0, NULL},
};

static PyType_Spec watches_spec = {
    .name = "wiregrad._recorder.WatchList",
    .basicsize = sizeof(WatchList),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = watches_slots,
};

#include "batch_calls.h"

/* ---- Calls ---- */

static PyObject *harmless_settings; /* list: NumPy's error settings that were last known to raise nothing */
static PyObject *watch_blocks, *convention_blocks; /* dicts that are empty while no such block is open */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *owner, *slow;
    PyObject *entries; /* a tuple, or NULL if there is nothing to answer with */
    PyObject *watches;
    PyObject *plain; /* what answers calls that are skipped; NULL if `slow` does that */
    char is_paused;
    Py_ssize_t hits, skips, skipped;
    Py_ssize_t plain_misses;   /* calls without a valid recording that `plain` answers at once; then Python decides anew */
    Py_ssize_t skips_per_miss; /* calls that are skipped after each of them */
} QuickCall;

static PyObject *thread_attributes; /* the attributes that `recording_state`, which is local to a thread, has in one */
static uint64_t thread_of_attributes;

/* Whether a transform is running in this thread. Looking the attributes up anew would take most of the time. */
static int is_inside_transform(void)
{
    const uint64_t thread = PyThreadState_GetID(PyThreadState_Get());
    if (thread_attributes == NULL || thread != thread_of_attributes) {
        PyObject *found = PyObject_GetAttrString(recording_state, "__dict__");
        if (found == NULL || !PyDict_CheckExact(found)) {
            Py_XDECREF(found);
            return 1;
        }
        Py_XSETREF(thread_attributes, found);
        thread_of_attributes = thread;
    }
    return PyDict_GetItemWithError(thread_attributes, innermost_name) != Py_None;
}

/* Whether no transform, watcher, kink convention or error setting changes what a call means. */
static int is_undisturbed(void)
{
    if (harmless_settings == NULL || recording_state == NULL || error_settings == NULL ||
        PyDict_GET_SIZE(watch_blocks) != 0 || PyDict_GET_SIZE(convention_blocks) != 0 ||
        PyList_GET_SIZE(harmless_settings) != 1)
        return 0;
    if (is_inside_transform()) {
        PyErr_Clear();
        return 0;
    }
    PyObject *settings = NULL;
    if (PyContextVar_Get(error_settings, NULL, &settings) < 0)
        PyErr_Clear();
    const int is_same = settings != NULL && settings == PyList_GET_ITEM(harmless_settings, 0);
    Py_XDECREF(settings);
    return is_same;
}

/* The answer that an entry has to a call; NULL without an error if it has none. Batches take threads= as well. */
static PyObject *ask_entry(PyObject *entry, PyObject *const *args, Py_ssize_t count, PyObject *keywords, int *missed)
{
    const Py_ssize_t named = keywords == NULL ? 0 : PyTuple_GET_SIZE(keywords);
    if (Py_TYPE(entry) == batch_entry_class) {
        if (named > 1 || (named == 1 && !is_same_text(PyTuple_GET_ITEM(keywords, 0), threads_name)))
            return NULL;
        return answer_batch((BatchEntry *)entry, args, count, named ? args[count] : Py_None);
    }
    const int fits = named == 0 && ((ReplayEntry *)entry)->arguments.count == count;
    return fits ? answer_entry((ReplayEntry *)entry, args, missed) : NULL;
}

/* The answer to a call; NULL without an error if Python has to find it. */
static PyObject *answer_quickly(QuickCall *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords, int *missed)
{
    if (!is_undisturbed())
        return NULL;
    PyObject *entries = Py_NewRef(self->entries);
    PyObject *watches = Py_NewRef(self->watches);
    PyObject *answer = NULL;
    if (!has_any_changed((WatchList *)watches))
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(entries) && answer == NULL && !PyErr_Occurred(); k++)
            answer = ask_entry(PyTuple_GET_ITEM(entries, k), args, count, keywords, missed);
    Py_DECREF(entries);
    Py_DECREF(watches);
    self->hits += answer != NULL;
    return answer;
}

static PyObject *call_plain(QuickCall *self, PyObject *const *args, size_t flags, PyObject *keywords)
{
    self->skipped++;
    PyObject *plain = Py_NewRef(self->plain);
    PyObject *answer = PyObject_Vectorcall(plain, args, flags, keywords);
    Py_DECREF(plain);
    return answer;
}

static PyObject *quick_vectorcall(PyObject *callable, PyObject *const *args, size_t flags, PyObject *keywords)
{
    QuickCall *self = (QuickCall *)callable;
    if (self->skips > 0 && self->plain != NULL) {
        self->skips--;
        return call_plain(self, args, flags, keywords);
    }
    const int is_named = keywords != NULL && PyTuple_GET_SIZE(keywords) != 0;
    const int is_batch = self->entries != NULL && Py_TYPE(PyTuple_GET_ITEM(self->entries, 0)) == batch_entry_class;
    if ((!is_named || is_batch) && !self->is_paused && self->entries != NULL) {
        int missed = 0;
        PyObject *answer = answer_quickly(self, args, PyVectorcall_NARGS(flags), keywords, &missed);
        if (answer != NULL || PyErr_Occurred())
            return answer;
        if (missed && self->plain_misses > 0 && self->plain != NULL) {
            self->plain_misses--;
            self->skips = self->skips_per_miss;
            return call_plain(self, args, flags, keywords);
        }
    }
    PyObject *slow = self->slow;
    if (slow == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this function was collected");
        return NULL;
    }
    Py_INCREF(slow);
    PyObject *answer = PyObject_Vectorcall(slow, args, flags, keywords);
    Py_DECREF(slow);
    return answer;
}

/* QuickCall(owner, slow, plain or None) */
static int quick_init(QuickCall *self, PyObject *args, PyObject *keywords)
{
    PyObject *owner, *slow, *plain;
    if (keywords != NULL || self->slow != NULL || !PyArg_ParseTuple(args, "OOO", &owner, &slow, &plain)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a call is made once, without keywords");
        return -1;
    }
    self->vectorcall = quick_vectorcall;
    self->owner = Py_NewRef(owner);
    self->slow = Py_NewRef(slow);
    self->plain = plain == Py_None ? NULL : Py_NewRef(plain);
    return 0;
}

static int quick_traverse(QuickCall *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->owner);
    Py_VISIT(self->slow);
    Py_VISIT(self->plain);
    Py_VISIT(self->entries);
    Py_VISIT(self->watches);
    return 0;
}

static int quick_clear(QuickCall *self)
{
    Py_CLEAR(self->owner);
    Py_CLEAR(self->slow);
    Py_CLEAR(self->plain);
    Py_CLEAR(self->entries);
    Py_CLEAR(self->watches);
    return 0;
}

static void quick_dealloc(PyObject *self)
{
    free_object(self, (int (*)(PyObject *))quick_clear);
}

/* set_entries(entries, watches): answer calls by these from now on; () and None to answer none. */
static PyObject *quick_set_entries(QuickCall *self, PyObject *args)
{
    PyObject *entries, *watches;
    if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &entries, &watches))
        return NULL;
    int is_sound = PyTuple_GET_SIZE(entries) == 0 || Py_TYPE(watches) == watches_class;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(entries); k++)
        is_sound = is_sound && (Py_TYPE(PyTuple_GET_ITEM(entries, k)) == entry_class ||
                                Py_TYPE(PyTuple_GET_ITEM(entries, k)) == batch_entry_class);
    if (!is_sound) {
        PyErr_SetString(PyExc_TypeError, "set_entries takes entries and a list of watches");
        return NULL;
    }
    const int is_empty = PyTuple_GET_SIZE(entries) == 0;
    PyObject *old_entries = self->entries, *old_watches = self->watches;
    self->entries = is_empty ? NULL : Py_NewRef(entries);
    self->watches = is_empty ? NULL : Py_NewRef(watches);
    Py_XDECREF(old_entries);
    Py_XDECREF(old_watches);
    Py_RETURN_NONE;
}

/* A method is pickled by its name, as methods of Python are. */
static PyObject *quick_reduce(QuickCall *self, PyObject *Py_UNUSED(unused))
{
    PyObject *name = self->slow == NULL ? NULL : PyObject_GetAttrString(self->slow, "__name__");
    PyObject *builtins = name == NULL ? NULL : PyImport_ImportModule("builtins");
    PyObject *getter = builtins == NULL ? NULL : PyObject_GetAttrString(builtins, "getattr");
    PyObject *reduced = getter == NULL ? NULL : Py_BuildValue("O(OO)", getter, self->owner, name);
    Py_XDECREF(name);
    Py_XDECREF(builtins);
    Py_XDECREF(getter);
    return reduced;
}

static PyMethodDef quick_methods[] = {
    {"__reduce__", (PyCFunction)quick_reduce, METH_NOARGS, "Return how to find this object again."},
    {"set_entries", (PyCFunction)quick_set_entries, METH_VARARGS, "Answer calls by these entries."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef quick_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(QuickCall, vectorcall), READONLY, NULL},
    {"__self__", T_OBJECT, offsetof(QuickCall, owner), READONLY, "The compiled function."},
    {"__wrapped__", T_OBJECT, offsetof(QuickCall, slow), READONLY, "The same in Python."},
    {"hits", T_PYSSIZET, offsetof(QuickCall, hits), 0, "The number of calls that were answered here."},
    {"skips", T_PYSSIZET, offsetof(QuickCall, skips), 0, "The number of calls that run the function itself at once."},
    {"skipped", T_PYSSIZET, offsetof(QuickCall, skipped), 0, "The number of calls that did."},
    {"plain_misses", T_PYSSIZET, offsetof(QuickCall, plain_misses), 0,
     "The number of calls without a valid recording that run the function itself at once."},
    {"skips_per_miss", T_PYSSIZET, offsetof(QuickCall, skips_per_miss), 0, "The number of skips after each of them."},
    {"is_paused", T_BOOL, offsetof(QuickCall, is_paused), 0, "Whether every call goes to Python."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot quick_slots[] = {
    {Py_tp_doc, "A function that native code answers where it can, and Python elsewhere."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, quick_init},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_dealloc, quick_dealloc},
    {Py_tp_traverse, quick_traverse},
    {Py_tp_clear, quick_clear},
    {Py_tp_methods, quick_methods},
    {Py_tp_members, quick_members},
    {0, NULL},
};

static PyType_Spec quick_spec = {
    .name = "wiregrad._recorder.QuickCall",
    .basicsize = sizeof(QuickCall),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = quick_slots,
};

/* connect_calls(given): take what the Python side knows about calls of compiled functions. */
static PyObject *connect_calls(PyObject *Py_UNUSED(module), PyObject *given)
{
    if (!PyDict_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "connect_calls needs a dict");
        return NULL;
    }
    if (take(given, "array_class", &PyType_Type, (PyObject **)&array_class) < 0 ||
        take(given, "float64_dtype", NULL, &float64_dtype) < 0 ||
        take(given, "watch_blocks", &PyDict_Type, &watch_blocks) < 0 ||
        take(given, "convention_blocks", &PyDict_Type, &convention_blocks) < 0 ||
        take(given, "harmless_settings", &PyList_Type, &harmless_settings) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* Add the classes of calls to the module; -1 on an error. */
static int add_call_classes(PyObject *module)
{
    struct {
        const char *name;
        PyType_Spec *spec;
        PyTypeObject **place;
    } classes[] = {{"ReplayProgram", &program_spec, &program_class},
                   {"ReplayEntry", &entry_spec, &entry_class},
                   {"WatchList", &watches_spec, &watches_class},
                   {"BatchJob", &job_spec, &job_class},
                   {"BatchEntry", &batch_entry_spec, &batch_entry_class},
                   {"QuickCall", &quick_spec, &quick_class}};
    threads_name = PyUnicode_InternFromString("threads");
    address_name = PyUnicode_InternFromString("address");
    sleep_lock = PyThread_allocate_lock();
    if (threads_name == NULL || address_name == NULL || sleep_lock == NULL)
        return -1;
    PyThread_acquire_lock(sleep_lock, NOWAIT_LOCK);
    for (size_t k = 0; k < sizeof(classes) / sizeof(classes[0]); k++) {
        *classes[k].place = (PyTypeObject *)PyType_FromModuleAndSpec(module, classes[k].spec, NULL);
        if (*classes[k].place == NULL || PyModule_AddObjectRef(module, classes[k].name, (PyObject *)*classes[k].place) < 0)
            return -1;
    }
    return 0;
}
