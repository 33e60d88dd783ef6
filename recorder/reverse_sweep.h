/* The reverse sweep over the rows of a tape: its gradients, and what it gives to the leaves. Included by recorder.c. */

enum { ABSENT, NUMBER, OBJECT };
enum { INACTIVE, ACTIVE, ROOT }; /* whether a root of a sweep is behind a node */

/* What is added to -0.0 stays what it is, to the last bit, so it stands for a gradient that is absent. Both arrays have
   one element more, for what flows to a literal. */
typedef struct {
    PyObject_HEAD
    Py_ssize_t size;
    double *numbers;
    unsigned char *kinds;
    PyObject *objects; /* a dict: the gradients that are not floats, by index */
} GradientList;

static PyTypeObject *gradient_list_class;

static GradientList *make_gradients(PyTypeObject *kind, Py_ssize_t size)
{
    GradientList *self = (GradientList *)kind->tp_alloc(kind, 0);
    if (self == NULL)
        return NULL;
    self->objects = PyDict_New();
    self->numbers = PyMem_Malloc(((size_t)size + 1) * sizeof(double));
    self->kinds = PyMem_Calloc((size_t)size + 1, 1);
    self->size = size;
    if (self->objects == NULL || self->numbers == NULL || self->kinds == NULL) {
        Py_DECREF(self);
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t k = 0; k <= size; k++)
        self->numbers[k] = -0.0;
    return self;
}

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
    return (PyObject *)make_gradients(kind, size);
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
    list->numbers[k] = gradient == Py_None ? -0.0 : PyFloat_AS_DOUBLE(gradient);
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

static int pass_on(GradientList *list, Py_ssize_t from, Py_ssize_t to, double slope)
{
    if (list->kinds[from] == NUMBER && list->kinds[to] != OBJECT) {
        list->numbers[to] += list->numbers[from] * slope;
        list->kinds[to] = NUMBER;
        return 0;
    }
    return pass_object_on(list, from, to, slope);
}

/* Find the extra node at an offset, a borrowed reference or NULL if there is none; -1 on an error. */
static int find_extra(PyObject *tape, Py_ssize_t offset, PyObject **extra)
{
    PyObject *extras = SLOT(tape, tape_extras);
    *extra = NULL;
    if (extras == NULL || !PyDict_Check(extras))
        return 0;
    PyObject *key = PyLong_FromSsize_t(offset);
    if (key == NULL)
        return -1;
    *extra = PyDict_GetItemWithError(extras, key);
    Py_DECREF(key);
    return *extra == NULL && PyErr_Occurred() ? -1 : 0;
}

static PyObject *sources_of(PyObject *extra)
{
    PyObject *sources = PyTuple_Check(extra) && PyTuple_GET_SIZE(extra) > 1 ? PyTuple_GET_ITEM(extra, 1) : NULL;
    return sources != NULL && PyTuple_Check(sources) ? sources : NULL;
}

/* Whether an extra node passes its gradient on by Python code: it has sources, or its gradient is not a float. */
static int needs_python(PyObject *tape, GradientList *list, Py_ssize_t offset, Py_ssize_t node)
{
    PyObject *extra;
    if (find_extra(tape, offset, &extra) < 0)
        return -1;
    if (extra == NULL)
        return 0;
    PyObject *sources = sources_of(extra);
    return list->kinds[node] != NUMBER || sources == NULL || PyTuple_GET_SIZE(sources) != 0;
}

typedef struct {
    double p, q;
    int32_t a, b;
} Slopes;

static inline Slopes read_slopes(const char *row)
{
    Slopes slopes;
    memcpy(&slopes.p, row + 8, 8);
    memcpy(&slopes.q, row + 16, 8);
    memcpy(&slopes.a, row + 24, 4);
    memcpy(&slopes.b, row + 28, 4);
    return slopes;
}

/* Pass on the gradients of packed rows, all of which are floats, from a node down to `low`. Returns the first node that
   needs more care (an extra one, or one that reads a later one), or low - 1. */
static Py_ssize_t pull_numbers(const char *rows, GradientList *list, Py_ssize_t start, Py_ssize_t low, Py_ssize_t node)
{
    double *numbers = list->numbers;
    unsigned char *kinds = list->kinds;
    const Py_ssize_t nowhere = list->size;
    for (; node >= low; node--) {
        if (kinds[node] == ABSENT)
            continue;
        const Slopes slopes = read_slopes(rows + start + node * ROW_SIZE);
        const Py_ssize_t a = slopes.a - start;
        const Py_ssize_t b = slopes.b - start;
        if (slopes.a == EXTRA || a >= node * ROW_SIZE || b >= node * ROW_SIZE)
            break;
        /* Without branches, as no processor could guess them: what flows to a literal flows nowhere. */
        const Py_ssize_t first = a < 0 ? nowhere : (Py_ssize_t)((uint32_t)a / ROW_SIZE);
        const Py_ssize_t second = b < 0 ? nowhere : (Py_ssize_t)((uint32_t)b / ROW_SIZE);
        const double g = numbers[node];
        numbers[second] += g * slopes.q;
        kinds[second] = NUMBER;
        numbers[first] += g * slopes.p;
        kinds[first] = NUMBER;
    }
    return node;
}

/* Pass on the gradient of a node that may be an extra one, or have a gradient that is not a float; -1 on an error. */
static int pull_carefully(PyObject *tape, GradientList *list, Py_ssize_t start, Py_ssize_t node, PyObject *pull_extra)
{
    const Py_ssize_t offset = start + node * ROW_SIZE;
    const Slopes slopes = read_slopes(PyByteArray_AS_STRING(SLOT(tape, tape_buffer)) + offset);
    /* A source is an earlier row. */
    if (slopes.a >= offset || slopes.b >= offset) {
        PyErr_SetString(PyExc_SystemError, "a row reads a later one");
        return -1;
    }
    if (slopes.b >= 0 && slopes.b >= start && pass_on(list, node, (slopes.b - start) / ROW_SIZE, slopes.q) < 0)
        return -1;
    if (slopes.a >= 0)
        return slopes.a >= start ? pass_on(list, node, (slopes.a - start) / ROW_SIZE, slopes.p) : 0;
    const int is_needed = slopes.a == EXTRA ? needs_python(tape, list, offset, node) : 0;
    if (is_needed <= 0)
        return is_needed;
    PyObject *done = PyObject_CallFunction(pull_extra, "n", node);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

#define NODES_BETWEEN_SIGNALS 0x10000

/* Pass on the gradients of the nodes from `low` up to `high`, last one first; -1 on an error. */
static int pull_span(PyObject *tape, GradientList *list, Py_ssize_t start, Py_ssize_t low, Py_ssize_t high,
                     PyObject *pull_extra)
{
    PyObject *buffer = SLOT(tape, tape_buffer);
    if (buffer == NULL || !PyByteArray_CheckExact(buffer) || start < 0 || low < 0 || high > list->size) {
        PyErr_SetString(PyExc_IndexError, "the rows of a sweep are out of range");
        return -1;
    }
    Py_ssize_t node = high - 1;
    while (node >= low) {
        /* What an object's `*` and `+` run, and a signal, may have changed the tape. */
        if (SLOT(tape, tape_buffer) != buffer || start + (node + 1) * ROW_SIZE > PyByteArray_GET_SIZE(buffer)) {
            PyErr_SetString(PyExc_RuntimeError, "the tape is shorter than its sweep");
            return -1;
        }
        const Py_ssize_t pause = Py_MAX(low, node - NODES_BETWEEN_SIGNALS);
        Py_ssize_t next = node;
        if (list->objects != NULL && PyDict_GET_SIZE(list->objects) == 0)
            next = pull_numbers(PyByteArray_AS_STRING(buffer), list, start, pause, node);
        if (next >= pause) {
            if (list->kinds[next] != ABSENT && pull_carefully(tape, list, start, next, pull_extra) < 0)
                return -1;
            next--;
        }
        if ((next / NODES_BETWEEN_SIGNALS != node / NODES_BETWEEN_SIGNALS) && PyErr_CheckSignals() < 0)
            return -1;
        node = next;
    }
    return 0;
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
    if (pull_span(tape, list, start, low, high, pull_extra) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* push_rows(tape, tangents, start, marks, push_extra): pass on the tangents of the nodes behind an offset, first one
   first. A node whose mark is ROOT keeps the tangent that it was given. */
static PyObject *push_rows(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *tape, *marks, *push_extra;
    GradientList *list;
    Py_ssize_t start;
    if (!PyArg_ParseTuple(args, "OO!nO!O", &tape, gradient_list_class, &list, &start, &PyBytes_Type, &marks, &push_extra))
        return NULL;
    PyObject *buffer = is_connected && Py_TYPE(tape) == tape_class ? SLOT(tape, tape_buffer) : NULL;
    if (buffer == NULL || !PyByteArray_CheckExact(buffer) || start < 0 || PyBytes_GET_SIZE(marks) != list->size) {
        PyErr_SetString(PyExc_TypeError, "push_rows needs a tape, and a mark for each tangent");
        return NULL;
    }
    for (Py_ssize_t node = 0; node < list->size; node++) {
        if (PyBytes_AS_STRING(marks)[node] != ACTIVE)
            continue;
        if (SLOT(tape, tape_buffer) != buffer || start + (node + 1) * ROW_SIZE > PyByteArray_GET_SIZE(buffer)) {
            PyErr_SetString(PyExc_RuntimeError, "the tape is shorter than its sweep");
            return NULL;
        }
        const Slopes slopes = read_slopes(PyByteArray_AS_STRING(buffer) + start + node * ROW_SIZE);
        if (slopes.a == EXTRA) {
            PyObject *done = PyObject_CallFunction(push_extra, "n", node);
            if (done == NULL)
                return NULL;
            Py_DECREF(done);
            continue;
        }
        const Py_ssize_t first = slopes.a < 0 || slopes.a < start ? node : (slopes.a - start) / ROW_SIZE;
        const Py_ssize_t second = slopes.b < 0 || slopes.b < start ? node : (slopes.b - start) / ROW_SIZE;
        if (first < node && list->kinds[first] != ABSENT && pass_on(list, first, node, slopes.p) < 0)
            return NULL;
        if (second < node && list->kinds[second] != ABSENT && pass_on(list, second, node, slopes.q) < 0)
            return NULL;
        if (node % NODES_BETWEEN_SIGNALS == 0 && PyErr_CheckSignals() < 0)
            return NULL;
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
    PyObject *extra;
    if (find_extra(tape, offset, &extra) < 0)
        return -1;
    PyObject *sources = extra == NULL ? NULL : sources_of(extra);
    for (Py_ssize_t k = 0; sources != NULL && k < PyTuple_GET_SIZE(sources); k++) {
        const Py_ssize_t source = PyLong_AsSsize_t(PyTuple_GET_ITEM(sources, k));
        if (source == -1 && PyErr_Occurred())
            return -1;
        mark_zero(list, is_zero, source);
    }
    return 0;
}

/* 1 for each node that a sweep visited without leaving a gradient, in a bytearray. */
static PyObject *mark_nodes(PyObject *tape, GradientList *list)
{
    PyObject *buffer = SLOT(tape, tape_buffer);
    if (buffer == NULL || !PyByteArray_CheckExact(buffer) || list->size * ROW_SIZE > PyByteArray_GET_SIZE(buffer)) {
        PyErr_SetString(PyExc_TypeError, "a tape is shorter than its gradients");
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
        const Slopes slopes = read_slopes(PyByteArray_AS_STRING(buffer) + node * ROW_SIZE);
        if (slopes.a == EXTRA && mark_sources(tape, list, is_zero, node * ROW_SIZE) < 0) {
            Py_DECREF(marks);
            return NULL;
        }
        mark_zero(list, is_zero, slopes.a <= BLOCKED ? BLOCKED - (Py_ssize_t)slopes.a : slopes.a);
        mark_zero(list, is_zero, slopes.b <= BLOCKED ? BLOCKED - (Py_ssize_t)slopes.b : slopes.b);
    }
    return marks;
}

static PyObject *mark_reached(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *tape;
    GradientList *list;
    if (!PyArg_ParseTuple(args, "OO!", &tape, gradient_list_class, &list))
        return NULL;
    if (!is_connected || Py_TYPE(tape) != tape_class) {
        PyErr_SetString(PyExc_TypeError, "mark_reached needs a tape and the gradients of its nodes");
        return NULL;
    }
    return mark_nodes(tape, list);
}

/* Add an item to a tuple in a slot; -1 on an error. */
static int extend_tuple(PyObject **slot, PyObject *item)
{
    const Py_ssize_t size = PyTuple_GET_SIZE(*slot);
    PyObject *longer = PyTuple_New(size + 1);
    if (longer == NULL)
        return -1;
    for (Py_ssize_t k = 0; k < size; k++)
        PyTuple_SET_ITEM(longer, k, Py_NewRef(PyTuple_GET_ITEM(*slot, k)));
    PyTuple_SET_ITEM(longer, size, Py_NewRef(item));
    Py_SETREF(*slot, longer);
    return 0;
}

/* The notes of a leaf whose gradient is a float or None, and which has no hooks; NULL for every other value. */
static PyObject *find_plain_notes(PyObject *leaf)
{
    PyObject *notes = IS_SCALAR(leaf) && tape_of(leaf) == NULL ? notes_of(leaf) : NULL;
    PyObject *hooks = notes == NULL ? NULL : SLOT(notes, notes_hooks);
    PyObject *passes = notes == NULL ? NULL : SLOT(notes, notes_passes);
    PyObject *held = notes == NULL ? NULL : SLOT(notes, notes_grad);
    if (hooks == NULL || !PyTuple_CheckExact(hooks) || PyTuple_GET_SIZE(hooks) != 0 || passes == NULL ||
        !PyTuple_CheckExact(passes) || held == NULL || (held != Py_None && !PyFloat_CheckExact(held)))
        return NULL;
    return notes;
}

/* Add a gradient to that of a leaf as `deliver_gradients` does: 1 if that was done, 0 if Python has to do it. */
static int deliver_number(PyObject *leaf, double gradient, PyObject *place)
{
    PyObject *notes = find_plain_notes(leaf);
    if (notes == NULL)
        return 0;
    PyObject *held = SLOT(notes, notes_grad);
    PyObject *passes = SLOT(notes, notes_passes);
    PyObject *sum = PyFloat_FromDouble(held == Py_None ? gradient : PyFloat_AS_DOUBLE(held) + gradient);
    if (sum == NULL)
        return -1;
    if (PyTuple_GET_SIZE(passes) < max_passes && extend_tuple(&SLOT(notes, notes_passes), place) < 0) {
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

/* Whether a sweep over a tape runs no Python code: there is no hook, and every node is a row or a plain leaf. */
static int is_swept_plainly(PyObject *tape)
{
    PyObject *hooks = SLOT(tape, tape_hooks);
    PyObject *extras = SLOT(tape, tape_extras);
    PyObject *leaves = SLOT(tape, tape_leaves);
    if (hooks == NULL || !PyDict_Check(hooks) || PyDict_GET_SIZE(hooks) != 0 || extras == NULL ||
        !PyDict_Check(extras) || leaves == NULL || !PyDict_Check(leaves) ||
        PyDict_GET_SIZE(extras) != PyDict_GET_SIZE(leaves) || PyDict_GET_SIZE(paused) != 0)
        return 0;
    PyObject *offset, *leaf;
    Py_ssize_t position = 0;
    while (PyDict_Next(leaves, &position, &offset, &leaf))
        if (find_plain_notes(leaf) == NULL || !PyLong_CheckExact(offset))
            return 0;
    return 1;
}

/* Add the gradients of a sweep to the leaves of a tape that is swept plainly; -1 on an error. */
static int deliver_plainly(PyObject *tape, GradientList *list, PyObject *place)
{
    PyObject *offset, *leaf;
    PyObject *marks = NULL;
    Py_ssize_t position = 0;
    int done = 0;
    while (done >= 0 && PyDict_Next(SLOT(tape, tape_leaves), &position, &offset, &leaf)) {
        const Py_ssize_t node = PyLong_AsSsize_t(offset) / ROW_SIZE;
        if (node < 0 || node >= list->size)
            continue;
        if (list->kinds[node] == NUMBER) {
            done = deliver_number(leaf, list->numbers[node], place);
            continue;
        }
        if (marks == NULL)
            marks = mark_nodes(tape, list);
        if (marks == NULL)
            done = -1;
        else if (PyByteArray_AS_STRING(marks)[node])
            done = deliver_number(leaf, 0.0, place);
    }
    Py_XDECREF(marks);
    return done;
}

/* sweep_plainly(tape, offset, place): the gradients of a backward pass from a node, after they were added to the leaves;
   None if it is not a matter of numbers alone. */
static PyObject *sweep_plainly(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !is_connected || Py_TYPE(args[0]) != tape_class) {
        PyErr_SetString(PyExc_TypeError, "sweep_plainly needs a tape, an offset and a place");
        return NULL;
    }
    PyObject *tape = args[0];
    const Py_ssize_t root = PyLong_AsSsize_t(args[1]);
    if (root < 0 && PyErr_Occurred())
        return NULL;
    if (root < 0 || !is_swept_plainly(tape))
        Py_RETURN_NONE;
    GradientList *list = make_gradients(gradient_list_class, root / ROW_SIZE + 1);
    if (list == NULL)
        return NULL;
    list->numbers[root / ROW_SIZE] = 1.0;
    list->kinds[root / ROW_SIZE] = NUMBER;
    const int failed = pull_span(tape, list, 0, 0, list->size, Py_None) < 0;
    if (!failed && !is_swept_plainly(tape)) {
        /* A signal came, and its handler changed something. */
        Py_DECREF(list);
        Py_RETURN_NONE;
    }
    if (failed || deliver_plainly(tape, list, args[2]) < 0)
        Py_CLEAR(list);
    return (PyObject *)list;
}
