/* Leaves: how they are made, where they are on a tape, and reading and writing their data and gradients. Included by
recorder.c. */

static PyObject *notes_of(PyObject *leaf)
{
    PyObject *notes = SCALAR(leaf)->notes;
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
        PyByteArrayObject *rows = grow_tape(tape);
        if (rows != NULL) {
            offset = Py_SIZE(rows);
            memcpy(extend_rows(rows), extra_row, ROW_SIZE);
            key = PyLong_FromSsize_t(offset);
        }
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

static PyObject *tape_of(PyObject *value)
{
    PyObject *tape = SCALAR(value)->tape;
    return tape == Py_None ? NULL : tape;
}

/* The tape that a weak reference refers to, if this thread can record more there; a new reference, or NULL. */
static PyObject *find_open_tape(PyObject *reference)
{
    if (reference == NULL || !PyWeakref_CheckRef(reference))
        return NULL;
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *tape = NULL;
    if (PyWeakref_GetRef(reference, &tape) <= 0)
        return NULL;
#else
    PyObject *tape = Py_NewRef(PyWeakref_GET_OBJECT(reference));
#endif
    if (is_known_tape(tape) || is_own_tape(tape)) {
        PyObject *buffer = SLOT(tape, tape_buffer);
        if (buffer != NULL && PyByteArray_CheckExact(buffer) && PyByteArray_GET_SIZE(buffer) <= max_tape_bytes)
            return tape;
    }
    Py_DECREF(tape);
    return NULL;
}

/* The tape where a leaf was last used, if more can be recorded there; a new reference, or NULL. */
static PyObject *find_home(PyObject *leaf)
{
    PyObject *notes = notes_of(leaf);
    return notes == NULL ? NULL : find_open_tape(SLOT(notes, notes_home));
}

/* The same as a borrowed reference: only this thread runs now, and somebody else holds the tape. */
static PyObject *borrow_home(PyObject *leaf)
{
    PyObject *tape = find_home(leaf);
    Py_XDECREF(tape);
    return tape;
}

/* The tape that an op on leaves alone began last, as a weak reference, and the thread of that op: its number, as a new
   thread may have the identifier of one that has ended. */
static PyObject *latest_tape;
static uint64_t latest_thread;

static uint64_t number_thread(void)
{
    return PyThreadState_GetID(PyThreadState_Get());
}

/* note_latest(reference): the latest tape of this thread; None if the next op on leaves alone begins a new one. */
static PyObject *note_latest(PyObject *Py_UNUSED(module), PyObject *reference)
{
    Py_XSETREF(latest_tape, Py_NewRef(reference));
    latest_thread = number_thread();
    Py_RETURN_NONE;
}

/* The tape for an op on leaves that are at home on none; a new reference, NULL on an error. */
static PyObject *find_latest(void)
{
    PyObject *tape = latest_thread == number_thread() ? find_open_tape(latest_tape) : NULL;
    return tape != NULL ? tape : PyObject_CallNoArgs(current_tape);
}

/* Whether a value on no tape is one that gradients flow to. */
static int is_variable(PyObject *leaf)
{
    PyObject *notes = notes_of(leaf);
    return notes != NULL && SLOT(notes, notes_constant) == Py_False;
}

static PyObject *make_notes(void)
{
    PyObject *notes = notes_class->tp_alloc(notes_class, 0);
    PyObject *zero = PyLong_FromLong(0);
    PyObject *nothing = PyTuple_New(0);
    if (notes == NULL || zero == NULL || nothing == NULL) {
        Py_XDECREF(notes);
        Py_XDECREF(zero);
        Py_XDECREF(nothing);
        return NULL;
    }
    SLOT(notes, notes_constant) = Py_NewRef(Py_False);
    SLOT(notes, notes_grad) = Py_NewRef(Py_None);
    SLOT(notes, notes_name) = Py_NewRef(Py_None);
    SLOT(notes, notes_home) = Py_NewRef(Py_None);
    SLOT(notes, notes_hooks) = Py_NewRef(nothing);
    SLOT(notes, notes_passes) = nothing;
    SLOT(notes, notes_serial) = Py_NewRef(zero);
    SLOT(notes, notes_offset) = Py_NewRef(zero);
    SLOT(notes, notes_born) = zero;
    return notes;
}

static PyObject *make_leaf(PyObject *data)
{
    PyObject *notes = make_notes();
    PyObject *self = notes == NULL ? NULL : scalar_alloc(scalar_class, 0);
    if (self == NULL) {
        Py_XDECREF(notes);
        return NULL;
    }
    SCALAR(self)->data = Py_NewRef(data);
    SCALAR(self)->number = PyFloat_AS_DOUBLE(data);
    SCALAR(self)->tape = Py_NewRef(Py_None);
    SCALAR(self)->notes = notes;
    return self;
}

/* Value(x) of a float outside of transforms; everything else is left to the class. */
static PyObject *make_value(PyObject *kind, PyObject *const *args, size_t flags, PyObject *names)
{
    const Py_ssize_t count = PyVectorcall_NARGS(flags);
    const Py_ssize_t named = names == NULL ? 0 : PyTuple_GET_SIZE(names);
    if (count == 1 && named == 0 && PyFloat_CheckExact(args[0]) && !is_running())
        return make_leaf(args[0]);
    PyObject *positional = PyTuple_New(count);
    PyObject *keywords = PyDict_New();
    PyObject *result = NULL;
    int failed = positional == NULL || keywords == NULL;
    for (Py_ssize_t k = 0; !failed && k < count; k++)
        PyTuple_SET_ITEM(positional, k, Py_NewRef(args[k]));
    for (Py_ssize_t k = 0; !failed && k < named; k++)
        failed = PyDict_SetItem(keywords, PyTuple_GET_ITEM(names, k), args[count + k]) < 0;
    if (!failed)
        result = PyType_Type.tp_call(kind, positional, keywords);
    Py_XDECREF(positional);
    Py_XDECREF(keywords);
    return result;
}

/* Whether reading a scalar as a plain number needs no note: nothing is traced that could depend on the number. */
static int is_read_freely(PyObject *self)
{
    PyObject *tape = tape_of(self);
    const int is_free = tape == NULL || (Py_TYPE(tape) == tape_class && SLOT(tape, tape_guard) == Py_None);
    return is_free && !is_running();
}

static PyObject *read_property(PyObject *property, PyObject *self)
{
    return Py_TYPE(property)->tp_descr_get(property, self, (PyObject *)Py_TYPE(self));
}

static int assign_property(PyObject *property, PyObject *self, PyObject *value)
{
    return Py_TYPE(property)->tp_descr_set(property, self, value);
}

static PyObject *read_number(PyObject *self, void *Py_UNUSED(closure))
{
    return is_read_freely(self) ? get_data(self, NULL) : read_property(data_property, self);
}

static int assign_number(PyObject *self, PyObject *data, void *Py_UNUSED(closure))
{
    PyObject *notes = tape_of(self) == NULL ? notes_of(self) : NULL;
    if (notes == NULL || data == NULL || !PyFloat_CheckExact(data))
        return assign_property(data_property, self, data);
    Py_XSETREF(SLOT(notes, notes_serial), PyLong_FromLong(0));
    return set_data(self, data, NULL);
}

static PyObject *read_gradient(PyObject *self, void *Py_UNUSED(closure))
{
    PyObject *notes = tape_of(self) == NULL ? notes_of(self) : NULL;
    PyObject *grad = notes == NULL ? NULL : SLOT(notes, notes_grad);
    return grad == NULL ? read_property(grad_property, self) : Py_NewRef(grad);
}

static int assign_gradient(PyObject *self, PyObject *grad, void *Py_UNUSED(closure))
{
    PyObject *notes = tape_of(self) == NULL ? notes_of(self) : NULL;
    PyObject *nothing = notes == NULL || grad == NULL ? NULL : PyTuple_New(0);
    if (nothing == NULL)
        return assign_property(grad_property, self, grad);
    Py_XSETREF(SLOT(notes, notes_passes), nothing);
    Py_XSETREF(SLOT(notes, notes_grad), Py_NewRef(grad));
    return 0;
}
