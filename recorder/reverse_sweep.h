/* The reverse sweep over the rows of a tape: its gradients, and what it gives to the leaves. Included by recorder.c. */

enum { ABSENT, NUMBER, OBJECT };

typedef struct {
    PyObject_HEAD
    Py_ssize_t size;
    double *numbers;
    unsigned char *kinds;
    PyObject *objects; /* a dict: the gradients that are not floats, by index */
} GradientList;

static PyTypeObject *gradient_list_class;

static PyObject *gradients_new(PyTypeObject *kind, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t size;
    if (kwargs != NULL && PyDict_GET_SIZE(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "GradientList takes no keywords");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "n", &size))
        return NULL;
    if (size < 0) {
        PyErr_SetString(PyExc_ValueError, "the size of a GradientList is not negative");
        return NULL;
    }
    GradientList *self = (GradientList *)kind->tp_alloc(kind, 0);
    if (self == NULL)
        return NULL;
    self->objects = PyDict_New();
    self->numbers = PyMem_Calloc((size_t)size + 1, sizeof(double));
    self->kinds = PyMem_Calloc((size_t)size + 1, 1);
    self->size = size;
    if (self->objects == NULL || self->numbers == NULL || self->kinds == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static int gradients_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((GradientList *)self)->objects);
    return 0;
}

static int gradients_clear(PyObject *self)
{
    Py_CLEAR(((GradientList *)self)->objects);
    return 0;
}

static void gradients_dealloc(PyObject *self)
{
    PyTypeObject *kind = Py_TYPE(self);
    GradientList *list = (GradientList *)self;
    PyObject_GC_UnTrack(self);
    gradients_clear(self);
    PyMem_Free(list->numbers);
    PyMem_Free(list->kinds);
    kind->tp_free(self);
    Py_DECREF(kind);
}

static Py_ssize_t gradients_length(PyObject *self)
{
    return ((GradientList *)self)->size;
}

static PyObject *gradients_item(PyObject *self, Py_ssize_t k)
{
    GradientList *list = (GradientList *)self;
    if (k < 0 || k >= list->size) {
        PyErr_SetString(PyExc_IndexError, "a gradient's index is out of range");
        return NULL;
    }
    if (list->kinds[k] == NUMBER)
        return PyFloat_FromDouble(list->numbers[k]);
    if (list->kinds[k] == ABSENT || list->objects == NULL)
        Py_RETURN_NONE;
    PyObject *key = PyLong_FromSsize_t(k);
    if (key == NULL)
        return NULL;
    PyObject *found = PyDict_GetItemWithError(list->objects, key);
    Py_DECREF(key);
    if (found == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_SystemError, "a gradient is missing");
        return NULL;
    }
    return Py_NewRef(found);
}

static int gradients_assign(PyObject *self, Py_ssize_t k, PyObject *gradient)
{
    GradientList *list = (GradientList *)self;
    if (k < 0 || k >= list->size || gradient == NULL || list->objects == NULL) {
        PyErr_SetString(PyExc_IndexError, "a gradient's index is out of range");
        return -1;
    }
    if (gradient != Py_None && !PyFloat_CheckExact(gradient)) {
        PyObject *key = PyLong_FromSsize_t(k);
        if (key == NULL)
            return -1;
        const int failed = PyDict_SetItem(list->objects, key, gradient);
        Py_DECREF(key);
        if (!failed)
            list->kinds[k] = OBJECT;
        return failed;
    }
    const int was_object = list->kinds[k] == OBJECT;
    list->kinds[k] = gradient == Py_None ? ABSENT : NUMBER;
    list->numbers[k] = gradient == Py_None ? 0.0 : PyFloat_AS_DOUBLE(gradient);
    if (was_object) {
        PyObject *key = PyLong_FromSsize_t(k);
        if (key == NULL)
            return -1;
        const int failed = PyDict_DelItem(list->objects, key);
        Py_DECREF(key);
        return failed;
    }
    return 0;
}

static PyType_Slot gradients_slots[] = {
    {Py_tp_new, gradients_new},
    {Py_tp_traverse, gradients_traverse},
    {Py_tp_clear, gradients_clear},
    {Py_tp_dealloc, gradients_dealloc},
    {Py_sq_length, gradients_length},
    {Py_sq_item, gradients_item},
    {Py_sq_ass_item, gradients_assign},
    {Py_tp_doc, "One gradient per node: a float, another object, or None. Floats take 9 bytes."},
    {0, NULL},
};

static PyType_Spec gradients_spec = {
    .name = "wiregrad._recorder.GradientList",
    .basicsize = sizeof(GradientList),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = gradients_slots,
};

/* Add g * slope to the gradient of a node, where one of them is not a float. */
static int add_object(PyObject *self, Py_ssize_t node, PyObject *g, double slope)
{
    PyObject *factor = PyFloat_FromDouble(slope);
    if (factor == NULL)
        return -1;
    PyObject *sent = PyNumber_Multiply(g, factor);
    Py_DECREF(factor);
    if (sent == NULL)
        return -1;
    PyObject *held = gradients_item(self, node);
    if (held == NULL) {
        Py_DECREF(sent);
        return -1;
    }
    PyObject *sum = held == Py_None ? Py_NewRef(sent) : PyNumber_Add(held, sent);
    Py_DECREF(held);
    Py_DECREF(sent);
    if (sum == NULL)
        return -1;
    const int failed = gradients_assign(self, node, sum);
    Py_DECREF(sum);
    return failed;
}

static int pass_object_on(GradientList *list, Py_ssize_t from, Py_ssize_t to, double slope)
{
    PyObject *g = gradients_item((PyObject *)list, from);
    if (g == NULL)
        return -1;
    const int failed = add_object((PyObject *)list, to, g, slope);
    Py_DECREF(g);
    return failed;
}

static inline int pass_on(GradientList *list, Py_ssize_t from, Py_ssize_t to, double slope)
{
    if (list->kinds[from] == NUMBER && list->kinds[to] != OBJECT) {
        const double sent = list->numbers[from] * slope;
        list->numbers[to] = list->kinds[to] == ABSENT ? sent : list->numbers[to] + sent;
        list->kinds[to] = NUMBER;
        return 0;
    }
    return pass_object_on(list, from, to, slope);
}

/* Whether an extra node passes its gradient on by Python code: it has sources, or its gradient is not a float. */
static int needs_python(PyObject *tape, GradientList *list, Py_ssize_t offset, Py_ssize_t node)
{
    PyObject *extras = SLOT(tape, tape_extras);
    PyObject *key = PyLong_FromSsize_t(offset);
    if (key == NULL || extras == NULL || !PyDict_Check(extras)) {
        Py_XDECREF(key);
        return key == NULL ? -1 : 0;
    }
    PyObject *extra = PyDict_GetItemWithError(extras, key);
    Py_DECREF(key);
    if (extra == NULL)
        return PyErr_Occurred() ? -1 : 0;
    if (list->kinds[node] != NUMBER || !PyTuple_Check(extra) || PyTuple_GET_SIZE(extra) < 2)
        return 1;
    PyObject *sources = PyTuple_GET_ITEM(extra, 1);
    return !PyTuple_Check(sources) || PyTuple_GET_SIZE(sources) != 0;
}

static PyObject *pull_rows(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *tape, *pull_extra;
    GradientList *list;
    Py_ssize_t start, low, high;
    if (!PyArg_ParseTuple(args, "OO!nnnO", &tape, gradient_list_class, &list, &start, &low, &high, &pull_extra))
        return NULL;
    if (!is_connected || Py_TYPE(tape) != tape_class) {
        PyErr_SetString(PyExc_TypeError, "pull_rows needs a tape");
        return NULL;
    }
    PyObject *buffer = SLOT(tape, tape_buffer);
    if (buffer == NULL || !PyByteArray_CheckExact(buffer) || start < 0 || low < 0 || high > list->size ||
        start + high * ROW_SIZE > PyByteArray_GET_SIZE(buffer)) {
        PyErr_SetString(PyExc_IndexError, "the rows of a sweep are out of range");
        return NULL;
    }
    for (Py_ssize_t node = high - 1; node >= low; node--) {
        if ((node & 0xffff) == 0 && PyErr_CheckSignals() < 0)
            return NULL;
        if (list->kinds[node] == ABSENT)
            continue;
        const Py_ssize_t offset = start + node * ROW_SIZE;
        /* What an object's `*` and `+` run may have changed the tape. */
        if (SLOT(tape, tape_buffer) != buffer || offset + ROW_SIZE > PyByteArray_GET_SIZE(buffer)) {
            PyErr_SetString(PyExc_RuntimeError, "the tape changed during a sweep");
            return NULL;
        }
        const char *row = PyByteArray_AS_STRING(buffer) + offset;
        double p, q;
        int32_t a, b;
        memcpy(&p, row + 8, 8);
        memcpy(&q, row + 16, 8);
        memcpy(&a, row + 24, 4);
        memcpy(&b, row + 28, 4);
        /* A source is an earlier row. */
        if (a >= offset || b >= offset) {
            PyErr_SetString(PyExc_SystemError, "a row reads a later one");
            return NULL;
        }
        if (b >= start && pass_on(list, node, (b - start) / ROW_SIZE, q) < 0)
            return NULL;
        if (a >= start) {
            if (pass_on(list, node, (a - start) / ROW_SIZE, p) < 0)
                return NULL;
        }
        else if (a == EXTRA) {
            const int is_needed = needs_python(tape, list, offset, node);
            if (is_needed < 0)
                return NULL;
            if (is_needed) {
                PyObject *done = PyObject_CallFunction(pull_extra, "n", node);
                if (done == NULL)
                    return NULL;
                Py_DECREF(done);
            }
        }
    }
    Py_RETURN_NONE;
}

static void mark_zero(GradientList *list, char *is_zero, Py_ssize_t offset)
{
    const Py_ssize_t node = offset / ROW_SIZE;
    if (offset >= 0 && node < list->size && list->kinds[node] == ABSENT)
        is_zero[node] = 1;
}

/* Mark the sources of an extra node; -1 on an error. */
static int mark_sources(PyObject *tape, GradientList *list, char *is_zero, Py_ssize_t offset)
{
    PyObject *extras = SLOT(tape, tape_extras);
    PyObject *key = PyLong_FromSsize_t(offset);
    if (key == NULL || extras == NULL || !PyDict_Check(extras)) {
        Py_XDECREF(key);
        return key == NULL ? -1 : 0;
    }
    PyObject *extra = PyDict_GetItemWithError(extras, key);
    Py_DECREF(key);
    if (extra == NULL)
        return PyErr_Occurred() ? -1 : 0;
    PyObject *sources = PyTuple_Check(extra) && PyTuple_GET_SIZE(extra) > 1 ? PyTuple_GET_ITEM(extra, 1) : NULL;
    for (Py_ssize_t k = 0; sources != NULL && PyTuple_Check(sources) && k < PyTuple_GET_SIZE(sources); k++) {
        const Py_ssize_t source = PyLong_AsSsize_t(PyTuple_GET_ITEM(sources, k));
        if (source == -1 && PyErr_Occurred())
            return -1;
        mark_zero(list, is_zero, source);
    }
    return 0;
}

/* mark_reached(tape, gradients): 1 for each node that a sweep visited without leaving a gradient, in a bytearray. */
static PyObject *mark_reached(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *tape;
    GradientList *list;
    if (!PyArg_ParseTuple(args, "OO!", &tape, gradient_list_class, &list))
        return NULL;
    PyObject *buffer = is_connected && Py_TYPE(tape) == tape_class ? SLOT(tape, tape_buffer) : NULL;
    if (buffer == NULL || !PyByteArray_CheckExact(buffer) || list->size * ROW_SIZE > PyByteArray_GET_SIZE(buffer)) {
        PyErr_SetString(PyExc_TypeError, "mark_reached needs a tape and the gradients of its nodes");
        return NULL;
    }
    PyObject *marks = PyByteArray_FromStringAndSize(NULL, list->size);
    if (marks == NULL)
        return NULL;
    char *is_zero = PyByteArray_AS_STRING(marks);
    memset(is_zero, 0, (size_t)list->size);
    /* A source is an earlier row, so one pass backwards reaches everything. */
    for (Py_ssize_t node = list->size - 1; node >= 0; node--) {
        const int is_present = list->kinds[node] != ABSENT;
        if (!is_present && !is_zero[node])
            continue;
        const char *row = PyByteArray_AS_STRING(buffer) + node * ROW_SIZE;
        int32_t sources[2];
        memcpy(sources, row + 24, 8);
        if (sources[0] == EXTRA && mark_sources(tape, list, is_zero, node * ROW_SIZE) < 0) {
            Py_DECREF(marks);
            return NULL;
        }
        for (int k = 0; k < 2; k++)
            mark_zero(list, is_zero, sources[k] <= BLOCKED ? BLOCKED - (Py_ssize_t)sources[k] : sources[k]);
    }
    return marks;
}

/* Add a gradient to that of a leaf as `deliver_gradients` does: 1 if that was done, 0 if Python has to do it. */
static int deliver_number(PyObject *leaf, double gradient, PyObject *place)
{
    PyObject *notes = IS_SCALAR(leaf) && tape_of(leaf) == NULL ? notes_of(leaf) : NULL;
    PyObject *hooks = notes == NULL ? NULL : SLOT(notes, notes_hooks);
    PyObject *passes = notes == NULL ? NULL : SLOT(notes, notes_passes);
    PyObject *held = notes == NULL ? NULL : SLOT(notes, notes_grad);
    if (hooks == NULL || !PyList_CheckExact(hooks) || PyList_GET_SIZE(hooks) != 0 || passes == NULL ||
        !PyList_CheckExact(passes) || held == NULL || (held != Py_None && !PyFloat_CheckExact(held)))
        return 0;
    PyObject *sum = PyFloat_FromDouble(held == Py_None ? gradient : PyFloat_AS_DOUBLE(held) + gradient);
    if (sum == NULL)
        return -1;
    if (PyList_GET_SIZE(passes) < max_passes && PyList_Append(passes, place) < 0) {
        Py_DECREF(sum);
        return -1;
    }
    Py_XSETREF(SLOT(notes, notes_home), Py_NewRef(Py_None));
    Py_XSETREF(SLOT(notes, notes_grad), sum);
    return 1;
}

/* deliver(tape, gradients, place, otherwise): add gradients to the leaves of a tape, one after the other;
   `otherwise(offset, leaf)` does so for those that are not plain numbers. */
static PyObject *deliver(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *tape, *place, *otherwise;
    GradientList *list;
    if (!PyArg_ParseTuple(args, "OO!OO", &tape, gradient_list_class, &list, &place, &otherwise))
        return NULL;
    if (!is_connected || Py_TYPE(tape) != tape_class) {
        PyErr_SetString(PyExc_TypeError, "deliver needs a tape");
        return NULL;
    }
    /* A list, because a hook may record something and so change the dict. */
    PyObject *leaves = SLOT(tape, tape_leaves);
    PyObject *items = leaves == NULL || !PyDict_Check(leaves) ? NULL : PyDict_Items(leaves);
    if (items == NULL)
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(items); k++) {
        PyObject *offset = PyTuple_GET_ITEM(PyList_GET_ITEM(items, k), 0);
        PyObject *leaf = PyTuple_GET_ITEM(PyList_GET_ITEM(items, k), 1);
        const Py_ssize_t at = PyLong_AsSsize_t(offset);
        const Py_ssize_t node = at / ROW_SIZE;
        int done = at < 0 ? -1 : 0;
        if (done == 0 && node < list->size && list->kinds[node] == NUMBER)
            done = deliver_number(leaf, list->numbers[node], place);
        if (done == 0) {
            PyObject *result = PyObject_CallFunctionObjArgs(otherwise, offset, leaf, NULL);
            done = result == NULL ? -1 : 1;
            Py_XDECREF(result);
        }
        if (done < 0) {
            Py_DECREF(items);
            return NULL;
        }
    }
    Py_DECREF(items);
    Py_RETURN_NONE;
}
