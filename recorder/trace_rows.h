/* Tracing: where in the user's code each row was recorded, and the operators of traced numbers.

While a function is traced, only what is gone later is written down, as numbers: for each row the number of its site, and
for each site the call, the instruction, the loop variables and the `wg.group` blocks. Lines, names and groups are found
in bulk when the circuit is written (`wiregrad.frontends.recording.user_code`). A loop of a million rows has few sites,
and straight-line code has few calls.

A traced number is an instance of a Python class with __slots__ whose data is an np.float64. Its operators append a row
where nothing else is to be done; everything else (arrays, blocks such as no_grad, numbers that are not finite) is left
to the Python method that the operator replaced. */

#if PY_VERSION_HEX < 0x030C0000
#define Py_BUILD_CORE 1
#include "internal/pycore_frame.h"
#undef Py_BUILD_CORE
#endif

enum { USER_CODE, LIBRARY_CODE, TRACED_CALL_CODE, FUNCTION_CODE };
enum { NO_SITE = -1, FIRST_OTHER_SITE = -2 }; /* FIRST_OTHER_SITE - k: site k of those that Python found */
#define MAX_STEPS 16
#define STEP_SIZE 3 /* the loop, its variable, and the variable's number */
#define CODE_CACHE_SIZE 64

typedef struct {
    int32_t instruction, site;
    PyObject *loops; /* the loops around the instruction; NULL until it is asked for */
} SiteSlot;

typedef struct {
    int32_t call;
    int has_loops;
    SiteSlot *slots; /* a hash table by instruction */
    Py_ssize_t capacity, count;
    int64_t last_steps; /* where the latest steps are in the pool */
    Py_ssize_t loop_count;
    int64_t *step_counts;
} FrameSites;

typedef struct {
    int32_t call, instruction, blocks;
    int64_t steps;
} TraceSite;

typedef struct {
    PyObject_HEAD
    PyObject *tracker, *functions, *calls, *opened_groups, *read_blocks;
    PyObject *frames; /* dict: frame to a capsule of FrameSites, or None if Python finds its sites */
    PyObject *codes;  /* dict: address of a code object to (code, kind or name) */
    PyObject *blocks; /* list of tuples of blocks; the first is empty */
    PyObject *last_frame, *call_frame;
    FrameSites *last_sites;
    int64_t call_count, max_loop_steps;
    int32_t *rows;
    Py_ssize_t row_count, row_capacity;
    TraceSite *sites;
    Py_ssize_t site_count, site_capacity;
    int64_t *steps;
    Py_ssize_t step_count, step_capacity;
    Py_ssize_t row_limit; /* the number of rows after which `limit_error` is raised, once; 0 if there is no limit */
    PyObject *limit_error;
    int is_over_limit;
    PyObject *cached_codes[CODE_CACHE_SIZE];
    PyObject *cached_kinds[CODE_CACHE_SIZE];
} TraceSites;

static PyObject *integer_class;

static void free_frame_sites(PyObject *capsule)
{
    FrameSites *sites = PyCapsule_GetPointer(capsule, NULL);
    for (Py_ssize_t k = 0; k < sites->capacity; k++)
        Py_XDECREF(sites->slots[k].loops);
    PyMem_Free(sites->slots);
    PyMem_Free(sites->step_counts);
    PyMem_Free(sites);
}

static int sites_traverse(TraceSites *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->tracker);
    Py_VISIT(self->functions);
    Py_VISIT(self->calls);
    Py_VISIT(self->opened_groups);
    Py_VISIT(self->read_blocks);
    Py_VISIT(self->frames);
    Py_VISIT(self->codes);
    Py_VISIT(self->blocks);
    Py_VISIT(self->call_frame);
    Py_VISIT(self->limit_error);
    return 0;
}

static int sites_clear(TraceSites *self)
{
    Py_CLEAR(self->tracker);
    Py_CLEAR(self->functions);
    Py_CLEAR(self->calls);
    Py_CLEAR(self->opened_groups);
    Py_CLEAR(self->read_blocks);
    self->last_frame = NULL;
    self->last_sites = NULL;
    Py_CLEAR(self->frames);
    memset(self->cached_codes, 0, sizeof(self->cached_codes));
    Py_CLEAR(self->codes);
    Py_CLEAR(self->blocks);
    Py_CLEAR(self->call_frame);
    Py_CLEAR(self->limit_error);
    return 0;
}

static void sites_dealloc(TraceSites *self)
{
    PyTypeObject *kind = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    sites_clear(self);
    PyMem_Free(self->rows);
    PyMem_Free(self->sites);
    PyMem_Free(self->steps);
    kind->tp_free(self);
    Py_DECREF(kind);
}

/* TraceSites(tracker, functions, calls, opened_groups, read_blocks, max_loop_steps) */
static int sites_init(TraceSites *self, PyObject *args, PyObject *keywords)
{
    PyObject *tracker, *functions, *calls, *opened_groups, *read_blocks;
    if (keywords != NULL || self->frames != NULL) {
        PyErr_SetString(PyExc_TypeError, "the sites of a trace are made once, without keywords");
        return -1;
    }
    long long max_loop_steps;
    if (!PyArg_ParseTuple(args, "OO!O!O!OL", &tracker, &PyDict_Type, &functions, &PyDict_Type, &calls, &PyDict_Type,
                          &opened_groups, &read_blocks, &max_loop_steps))
        return -1;
    self->max_loop_steps = max_loop_steps;
    self->tracker = Py_NewRef(tracker);
    self->functions = Py_NewRef(functions);
    self->calls = Py_NewRef(calls);
    self->opened_groups = Py_NewRef(opened_groups);
    self->read_blocks = Py_NewRef(read_blocks);
    self->frames = PyDict_New();
    self->codes = PyDict_New();
    self->blocks = Py_BuildValue("[()]");
    return self->frames == NULL || self->codes == NULL || self->blocks == NULL ? -1 : 0;
}

/* Make room in an array for one more item; -1 on an error. */
static int reserve(void **items, Py_ssize_t *capacity, Py_ssize_t wanted, size_t size)
{
    if (wanted <= *capacity)
        return 0;
    const Py_ssize_t grown = wanted + wanted / 2 + 64;
    void *moved = PyMem_Realloc(*items, (size_t)grown * size);
    if (moved == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    *items = moved;
    *capacity = grown;
    return 0;
}

static int set_row(TraceSites *self, Py_ssize_t offset, int32_t site)
{
    const Py_ssize_t row = offset / ROW_SIZE;
    if (reserve((void **)&self->rows, &self->row_capacity, row + 1, sizeof(int32_t)) < 0)
        return -1;
    while (self->row_count <= row)
        self->rows[self->row_count++] = NO_SITE;
    self->rows[row] = site;
    if (self->row_limit == 0 || row < self->row_limit || self->is_over_limit)
        return 0;
    /* Once: code that catches the error goes on as if there were no limit. */
    self->is_over_limit = 1;
    PyErr_SetNone(self->limit_error);
    return -1;
}

/* The kind of a code object as a Python number, or the name of the composite function that it is; borrowed. */
static PyObject *kind_of_code(TraceSites *self, PyObject *code)
{
    /* By address: Python hashes a code object by its contents. */
    const size_t place = ((uintptr_t)code >> 5) % CODE_CACHE_SIZE;
    if (self->cached_codes[place] == code)
        return self->cached_kinds[place];
    PyObject *key = PyLong_FromVoidPtr(code);
    if (key == NULL)
        return NULL;
    PyObject *entry = PyDict_GetItemWithError(self->codes, key);
    if (entry == NULL && !PyErr_Occurred()) {
        PyObject *kind = PyObject_CallMethod(self->tracker, "classify_code", "OO", code, self->functions);
        entry = kind == NULL ? NULL : Py_BuildValue("(ON)", code, kind);
        if (entry != NULL && PyDict_SetItem(self->codes, key, entry) < 0)
            Py_CLEAR(entry);
        Py_XDECREF(entry); /* the dict holds it */
    }
    Py_DECREF(key);
    if (entry == NULL)
        return NULL;
    self->cached_codes[place] = code;
    return self->cached_kinds[place] = PyTuple_GET_ITEM(entry, 1);
}

static SiteSlot *find_slot_at(FrameSites *sites, int32_t instruction)
{
    if (2 * (sites->count + 1) > sites->capacity) {
        const Py_ssize_t capacity = sites->capacity == 0 ? 16 : 2 * sites->capacity;
        SiteSlot *slots = PyMem_Calloc((size_t)capacity, sizeof(SiteSlot));
        if (slots == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        for (Py_ssize_t k = 0; k < capacity; k++)
            slots[k].instruction = -1;
        for (Py_ssize_t k = 0; k < sites->capacity; k++)
            if (sites->slots[k].instruction >= 0) {
                Py_ssize_t at = (sites->slots[k].instruction / 2) & (capacity - 1);
                while (slots[at].instruction >= 0)
                    at = (at + 1) & (capacity - 1);
                slots[at] = sites->slots[k];
            }
        PyMem_Free(sites->slots);
        sites->slots = slots;
        sites->capacity = capacity;
    }
    Py_ssize_t at = (instruction / 2) & (sites->capacity - 1);
    while (sites->slots[at].instruction >= 0 && sites->slots[at].instruction != instruction)
        at = (at + 1) & (sites->capacity - 1);
    SiteSlot *slot = &sites->slots[at];
    if (slot->instruction < 0) {
        slot->instruction = instruction;
        slot->site = NO_SITE;
        slot->loops = NULL;
        sites->count++;
    }
    return slot;
}

/* The value of a local variable, a new reference; NULL without an error if it has none. */
static PyObject *read_local(PyFrameObject *frame, PyObject *name, long place)
{
#if PY_VERSION_HEX >= 0x030C0000
    (void)place;
    PyObject *value = PyFrame_GetVar(frame, name);
    if (value == NULL && PyErr_ExceptionMatches(PyExc_NameError))
        PyErr_Clear();
    return value;
#else
    if (place >= 0)
        return Py_XNewRef(frame->f_frame->localsplus[place]);
    PyObject *locals = PyFrame_GetLocals(frame);
    PyObject *value = locals == NULL ? NULL : PyObject_GetItem(locals, name);
    Py_XDECREF(locals);
    if (value == NULL && PyErr_ExceptionMatches(PyExc_KeyError))
        PyErr_Clear();
    return value;
#endif
}

/* The whole number that a loop variable has: 1 if it has one, 2 if it is too large, 0 if it has none, -1 on an error. */
static int read_step(PyFrameObject *frame, PyObject *target, int64_t *number)
{
    PyObject *value = read_local(frame, PyTuple_GET_ITEM(target, 0), PyLong_AsLong(PyTuple_GET_ITEM(target, 1)));
    if (value == NULL)
        return PyErr_Occurred() ? -1 : 0;
    int found = 0;
    if (PyLong_CheckExact(value) || PyObject_TypeCheck(value, (PyTypeObject *)integer_class)) {
        PyObject *whole = PyNumber_Index(value);
        int overflow = 0;
        *number = whole == NULL ? -1 : PyLong_AsLongLongAndOverflow(whole, &overflow);
        found = whole == NULL ? -1 : overflow ? 2 : 1;
        Py_XDECREF(whole);
    }
    Py_DECREF(value);
    return found;
}

enum { LARGE_STEP = -2 };

/* Read the steps of the loops around an instruction into `steps`; returns how many numbers that are, -1 on an error,
   LARGE_STEP if one is too large. */
static int read_steps(PyFrameObject *frame, PyObject *loops, int64_t *steps)
{
    int count = 0;
    const Py_ssize_t size = PyTuple_GET_SIZE(loops);
    for (Py_ssize_t k = 0; k < size && count < MAX_STEPS * STEP_SIZE; k++) {
        PyObject *loop = PyTuple_GET_ITEM(loops, k);
        PyObject *targets = PyTuple_GET_ITEM(loop, 1);
        for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(targets); j++) {
            int64_t number = 0;
            const int found = read_step(frame, PyTuple_GET_ITEM(targets, j), &number);
            if (found < 0)
                return -1;
            if (found == 2)
                return LARGE_STEP;
            if (found) {
                steps[count++] = PyLong_AsLong(PyTuple_GET_ITEM(loop, 0));
                steps[count++] = j;
                steps[count++] = number;
                break;
            }
        }
    }
    return count;
}

static int has_steps(const TraceSites *self, int64_t at, const int64_t *steps, int count)
{
    if (at < 0)
        return count == 0;
    return self->steps[at] == count && memcmp(self->steps + at + 1, steps, (size_t)count * sizeof(int64_t)) == 0;
}

/* Where steps are in the pool, to which they are added if they are not the latest ones; -2 on an error. */
static int64_t add_steps(TraceSites *self, FrameSites *frame_sites, const int64_t *steps, int count)
{
    if (count == 0)
        return -1;
    if (frame_sites->last_steps >= 0 && has_steps(self, frame_sites->last_steps, steps, count))
        return frame_sites->last_steps;
    const Py_ssize_t at = self->step_count;
    if (reserve((void **)&self->steps, &self->step_capacity, at + 1 + count, sizeof(int64_t)) < 0)
        return -2;
    self->steps[at] = count;
    memcpy(self->steps + at + 1, steps, (size_t)count * sizeof(int64_t));
    self->step_count = at + 1 + count;
    return frame_sites->last_steps = at;
}

/* Count the steps of loops, and stop reading the variables of those with very many; -1 on an error. */
static int count_steps(TraceSites *self, FrameSites *sites, int64_t before, const int64_t *steps, int count)
{
    for (int k = 0; k < count; k += STEP_SIZE) {
        int is_known = 0;
        const int64_t length = before < 0 ? 0 : self->steps[before];
        for (int64_t j = 0; j < length; j += STEP_SIZE)
            is_known |= memcmp(self->steps + before + 1 + j, steps + k, STEP_SIZE * sizeof(int64_t)) == 0;
        if (is_known)
            continue;
        const Py_ssize_t loop = (Py_ssize_t)steps[k];
        if (loop >= sites->loop_count) {
            const Py_ssize_t known = sites->loop_count;
            if (reserve((void **)&sites->step_counts, &sites->loop_count, loop + 1, sizeof(int64_t)) < 0)
                return -1;
            memset(sites->step_counts + known, 0, (size_t)(sites->loop_count - known) * sizeof(int64_t));
        }
        if (++sites->step_counts[loop] > self->max_loop_steps) {
            PyObject *done = PyObject_CallMethod(self->tracker, "mark_long_loop", "in", (int)sites->call, loop);
            if (done == NULL)
                return -1;
            Py_DECREF(done);
            for (Py_ssize_t j = 0; j < sites->capacity; j++)
                Py_CLEAR(sites->slots[j].loops);
        }
    }
    return 0;
}

/* The number of the `wg.group` blocks that are active; -1 on an error. */
static int32_t find_blocks(TraceSites *self)
{
    if (PyDict_GET_SIZE(self->opened_groups) == 0)
        return 0;
    PyObject *list = PyObject_CallNoArgs(self->read_blocks);
    PyObject *active = list == NULL ? NULL : PySequence_Tuple(list);
    Py_XDECREF(list);
    if (active == NULL)
        return -1;
    const Py_ssize_t last = PyList_GET_SIZE(self->blocks) - 1;
    int32_t number = 0;
    if (PyTuple_GET_SIZE(active) != 0) {
        const int is_same = PyObject_RichCompareBool(PyList_GET_ITEM(self->blocks, last), active, Py_EQ);
        number = (int32_t)(is_same == 1 ? last : last + 1);
        if (is_same < 0 || (is_same == 0 && PyList_Append(self->blocks, active) < 0))
            number = -1;
    }
    Py_DECREF(active);
    return number;
}

/* The sites of a frame of the user's code; NULL without an error if Python finds them. */
static FrameSites *sites_of_frame(TraceSites *self, PyFrameObject *frame)
{
    if ((PyObject *)frame == self->last_frame)
        return self->last_sites;
    PyObject *entry = PyDict_GetItemWithError(self->frames, (PyObject *)frame);
    if (entry == NULL) {
        if (PyErr_Occurred())
            return NULL;
        PyObject *found = PyObject_CallMethod(self->tracker, "enter_frame", "O", frame);
        int call = -1, has_loops = 0;
        if (found == NULL || !PyArg_ParseTuple(found, "ip", &call, &has_loops)) {
            Py_XDECREF(found);
            return NULL;
        }
        Py_DECREF(found);
        PyObject *capsule = NULL;
        if (call < 0)
            capsule = Py_NewRef(Py_None);
        else {
            FrameSites *sites = PyMem_Calloc(1, sizeof(FrameSites));
            capsule = sites == NULL ? PyErr_NoMemory() : PyCapsule_New(sites, NULL, free_frame_sites);
            if (capsule != NULL) {
                sites->call = call;
                sites->has_loops = has_loops;
                sites->last_steps = -1;
            }
        }
        if (capsule == NULL)
            return NULL;
        const int failed = PyDict_SetItem(self->frames, (PyObject *)frame, capsule);
        Py_DECREF(capsule);
        if (failed)
            return NULL;
        entry = capsule; /* the dict holds it */
    }
    if (entry == Py_None)
        return NULL;
    self->last_frame = (PyObject *)frame;
    return self->last_sites = PyCapsule_GetPointer(entry, NULL);
}

/* Note a row at a site that Python finds; -1 on an error. */
static int note_elsewhere(TraceSites *self, Py_ssize_t offset, PyFrameObject *frame)
{
    PyObject *other = PyObject_CallMethod(self->tracker, "locate_elsewhere", "O", frame);
    const long number = other == NULL ? -1 : PyLong_AsLong(other);
    Py_XDECREF(other);
    return number < 0 ? -1 : set_row(self, offset, (int32_t)(FIRST_OTHER_SITE - number));
}

/* Note a row that is recorded while a frame of the user's code is at an instruction; -1 on an error. */
static int note_in_frame(TraceSites *self, Py_ssize_t offset, PyFrameObject *frame)
{
    FrameSites *found = sites_of_frame(self, frame);
    if (found == NULL)
        return PyErr_Occurred() ? -1 : note_elsewhere(self, offset, frame);
    const int32_t instruction = (int32_t)PyFrame_GetLasti(frame);
    SiteSlot *slot = find_slot_at(found, instruction);
    const int32_t blocks = slot == NULL ? -1 : find_blocks(self);
    if (blocks < 0)
        return -1;
    int64_t steps[MAX_STEPS * STEP_SIZE];
    int count = 0;
    if (found->has_loops) {
        if (slot->loops == NULL) {
            PyObject *loops = PyObject_CallMethod(self->tracker, "loops_at", "ii", (int)found->call, (int)instruction);
            if (loops == NULL)
                return -1;
            slot->loops = loops;
        }
        count = PyTuple_GET_SIZE(slot->loops) == 0 ? 0 : read_steps(frame, slot->loops, steps);
        if (count < 0)
            return count == LARGE_STEP ? note_elsewhere(self, offset, frame) : -1;
    }
    if (slot->site >= 0) {
        const TraceSite *before = &self->sites[slot->site];
        if (before->blocks == blocks && has_steps(self, before->steps, steps, count))
            return set_row(self, offset, slot->site);
        if (count_steps(self, found, before->steps, steps, count) < 0)
            return -1;
    }
    const int64_t at = add_steps(self, found, steps, count);
    if (at < -1 || reserve((void **)&self->sites, &self->site_capacity, self->site_count + 1, sizeof(TraceSite)) < 0)
        return -1;
    slot->site = (int32_t)self->site_count;
    self->sites[self->site_count++] = (TraceSite){found->call, instruction, blocks, at};
    return set_row(self, offset, slot->site);
}

/* Note a row where Python stands now: walk from the running frame out to the user's code; -1 on an error. */
static int note_row(TraceSites *self, Py_ssize_t offset)
{
    PyFrameObject *frame = PyEval_GetFrame();
    if (frame != NULL && (PyObject *)frame == self->last_frame)
        return note_in_frame(self, offset, frame);
    Py_XINCREF(frame);
    PyObject *call_frame = NULL, *call_name = NULL;
    int failed = 0, is_user = 0;
    while (frame != NULL) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        PyObject *kind = kind_of_code(self, (PyObject *)code);
        Py_DECREF(code); /* the frame holds it */
        const long number = kind == NULL ? -1 : PyLong_Check(kind) ? PyLong_AsLong(kind) : FUNCTION_CODE;
        failed = number < 0;
        is_user = number == USER_CODE;
        if (failed || is_user || number == TRACED_CALL_CODE)
            break;
        if (number == FUNCTION_CODE) {
            Py_XSETREF(call_frame, Py_NewRef(frame));
            call_name = kind;
        }
        PyFrameObject *outer = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = outer;
    }
    if (!failed && call_frame != NULL) {
        if (call_frame != self->call_frame) {
            /* The frame is kept until the next call: the address of one that is gone may be that of the next. */
            Py_XSETREF(self->call_frame, Py_NewRef(call_frame));
            self->call_count++;
        }
        PyObject *key = PyLong_FromSsize_t(offset);
        PyObject *call = key == NULL ? NULL : Py_BuildValue("(OL)", call_name, (long long)self->call_count);
        failed = call == NULL || PyDict_SetItem(self->calls, key, call) < 0;
        Py_XDECREF(key);
        Py_XDECREF(call);
    }
    Py_XDECREF(call_frame);
    if (!failed)
        failed = is_user ? note_in_frame(self, offset, frame) < 0 : set_row(self, offset, NO_SITE) < 0;
    Py_XDECREF(frame);
    return failed ? -1 : 0;
}

static PyObject *sites_note(TraceSites *self, PyObject *offset)
{
    const Py_ssize_t at = PyLong_AsSsize_t(offset);
    if ((at == -1 && PyErr_Occurred()) || self->frames == NULL || note_row(self, at) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* site_at(offset): the call and the instruction of a row; the number of a site that Python found; None if it has none. */
static PyObject *sites_site_at(TraceSites *self, PyObject *offset)
{
    const Py_ssize_t at = PyLong_AsSsize_t(offset);
    if (at == -1 && PyErr_Occurred())
        return NULL;
    const int32_t site = at / ROW_SIZE < self->row_count ? self->rows[at / ROW_SIZE] : NO_SITE;
    if (site == NO_SITE)
        Py_RETURN_NONE;
    if (site <= FIRST_OTHER_SITE)
        return PyLong_FromLong(FIRST_OTHER_SITE - site);
    return Py_BuildValue("(ii)", (int)self->sites[site].call, (int)self->sites[site].instruction);
}

/* limit_rows(count, error): raise an error, once, when more rows than this are recorded. */
static PyObject *sites_limit_rows(TraceSites *self, PyObject *args)
{
    Py_ssize_t count;
    PyObject *error;
    if (!PyArg_ParseTuple(args, "nO", &count, &error))
        return NULL;
    self->row_limit = count;
    Py_XSETREF(self->limit_error, Py_NewRef(error));
    Py_RETURN_NONE;
}

static PyObject *sites_is_over_limit(TraceSites *self, PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(self->is_over_limit);
}

static PyObject *sites_forget_frames(TraceSites *self, PyObject *Py_UNUSED(unused))
{
    self->last_frame = NULL;
    self->last_sites = NULL;
    if (self->frames != NULL)
        PyDict_Clear(self->frames);
    Py_CLEAR(self->call_frame);
    Py_RETURN_NONE;
}

/* export(): the columns as bytes: the site of each row; call, instruction, blocks and steps of each site; the steps. */
static PyObject *sites_export(TraceSites *self, PyObject *Py_UNUSED(unused))
{
    PyObject *columns[4] = {NULL, NULL, NULL, NULL};
    for (int k = 0; k < 4; k++) {
        columns[k] = PyBytes_FromStringAndSize(NULL, self->site_count * (Py_ssize_t)(k < 3 ? sizeof(int32_t) : sizeof(int64_t)));
        if (columns[k] == NULL)
            return NULL;
    }
    int32_t *calls = (int32_t *)PyBytes_AS_STRING(columns[0]);
    int32_t *instructions = (int32_t *)PyBytes_AS_STRING(columns[1]);
    int32_t *blocks = (int32_t *)PyBytes_AS_STRING(columns[2]);
    int64_t *steps = (int64_t *)PyBytes_AS_STRING(columns[3]);
    for (Py_ssize_t k = 0; k < self->site_count; k++) {
        calls[k] = self->sites[k].call;
        instructions[k] = self->sites[k].instruction;
        blocks[k] = self->sites[k].blocks;
        steps[k] = self->sites[k].steps;
    }
    const char *rows = self->rows == NULL ? "" : (const char *)self->rows;
    const char *pool = self->steps == NULL ? "" : (const char *)self->steps;
    return Py_BuildValue("(y#NNNNy#O)", rows, self->row_count * (Py_ssize_t)sizeof(int32_t), columns[0], columns[1],
                         columns[2], columns[3], pool, self->step_count * (Py_ssize_t)sizeof(int64_t), self->blocks);
}

static PyMethodDef sites_methods[] = {
    {"note", (PyCFunction)sites_note, METH_O, "Note where the row at an offset is recorded."},
    {"site_at", (PyCFunction)sites_site_at, METH_O, "Return where the row at an offset was recorded."},
    {"limit_rows", (PyCFunction)sites_limit_rows, METH_VARARGS, "Raise an error when more rows than this are recorded."},
    {"is_over_limit", (PyCFunction)sites_is_over_limit, METH_NOARGS, "Return whether that error was raised."},
    {"forget_frames", (PyCFunction)sites_forget_frames, METH_NOARGS, "Let go of all frames."},
    {"export", (PyCFunction)sites_export, METH_NOARGS, "Return the columns as bytes, and the blocks."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot sites_slots[] = {
    {Py_tp_doc, "Where in the user's code the rows of a trace were recorded."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, sites_init},
    {Py_tp_dealloc, sites_dealloc},
    {Py_tp_traverse, sites_traverse},
    {Py_tp_clear, sites_clear},
    {Py_tp_methods, sites_methods},
    {0, NULL},
};

static PyType_Spec sites_spec = {
    .name = "wiregrad._recorder.TraceSites",
    .basicsize = sizeof(TraceSites),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = sites_slots,
};

static PyTypeObject *sites_class;

/* ---- The operators of traced numbers ---- */

static PyTypeObject *traced_class, *traced_python_class; /* of NumPy's numbers, and of Python's */
static PyObject *recording_state, *innermost_name;
static PyObject *error_settings; /* NumPy's context variable */
static Py_ssize_t value_index;
static PyObject *forwards[sizeof(OPS) / sizeof(OPS[0])]; /* NumPy's function, where C may round otherwise */
static PyObject *traced_ops;                             /* dict: an op to the capsule of its ScalarOp */

/* The trace that runs; only its own tape is recorded on here. */
static struct {
    PyObject *tape, *settings, *own_block;
    TraceSites *sites;
} running_trace;

/* begin_trace(tape, sites, own_block, settings): record on a tape; returns what `end_trace` restores. `settings` are
   NumPy's error settings under which C computes what NumPy does. */
static PyObject *begin_trace(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *tape, *sites, *own_block, *settings;
    if (!PyArg_ParseTuple(args, "OOOO", &tape, &sites, &own_block, &settings))
        return NULL;
    if (sites != Py_None && Py_TYPE(sites) != sites_class) {
        PyErr_SetString(PyExc_TypeError, "begin_trace needs the sites of the trace");
        return NULL;
    }
    PyObject *before =
        Py_BuildValue("(OOOO)", running_trace.tape == NULL ? Py_None : running_trace.tape,
                      running_trace.sites == NULL ? Py_None : (PyObject *)running_trace.sites,
                      running_trace.own_block == NULL ? Py_None : running_trace.own_block,
                      running_trace.settings == NULL ? Py_None : running_trace.settings);
    if (before == NULL)
        return NULL;
    Py_XSETREF(running_trace.tape, tape == Py_None ? NULL : Py_NewRef(tape));
    PyObject *old_sites = (PyObject *)running_trace.sites;
    running_trace.sites = sites == Py_None ? NULL : (TraceSites *)Py_NewRef(sites);
    Py_XDECREF(old_sites);
    Py_XSETREF(running_trace.own_block, Py_NewRef(own_block));
    Py_XSETREF(running_trace.settings, Py_NewRef(settings));
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
    if (tape == NULL || running_trace.sites == NULL || running_trace.sites->frames == NULL || !is_own_tape(tape))
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
    if (running_trace.tape == NULL)
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
    if (index == NULL || note_row(running_trace.sites, offset) < 0) {
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

/* An operator of a class of traced numbers: its op, and the Python method for everything else. */
typedef struct {
    ScalarOp *op;
    PyObject *otherwise;
    int is_reflected;
} TracedOperator;

#define TRACED_OPERATORS 64
static TracedOperator traced_operators[TRACED_OPERATORS];
static int traced_operator_count;

static PyObject *apply_traced_operator(int number, PyObject *self, PyObject *other)
{
    const TracedOperator *made = &traced_operators[number];
    PyObject *one = made->is_reflected ? other : self;
    PyObject *two = made->is_reflected ? self : other;
    PyObject *result = apply_traced(made->op, one, two, 1);
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
    PyMethodDef *definition = NULL;
    if (traced_operator_count == TRACED_OPERATORS)
        PyErr_Format(PyExc_ValueError, "the recorder has no place for the operator %s", name);
    else if (otherwise != NULL) {
        const size_t size = strlen(name) + 1;
        definition = PyMem_Calloc(1, sizeof(PyMethodDef) + size);
        if (definition == NULL)
            PyErr_NoMemory();
        else {
            /* A method of a class lives as long as the class, which is as long as the process. */
            memcpy(definition + 1, name, size);
            definition->ml_name = (const char *)(definition + 1);
            definition->ml_meth = traced_functions[traced_operator_count];
            definition->ml_flags = op->arity == 1 ? METH_NOARGS : METH_O;
        }
    }
    PyObject *method = definition == NULL ? NULL : PyDescr_NewMethod(owner, definition);
    if (method == NULL) {
        PyMem_Free(definition);
        Py_XDECREF(otherwise);
        return NULL;
    }
    traced_operators[traced_operator_count++] = (TracedOperator){op, otherwise, is_reflected};
    const int failed = PyObject_SetAttrString((PyObject *)owner, name, method);
    Py_DECREF(method);
    if (failed)
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

/* __array_ufunc__ of traced numbers: a ufunc whose op is recorded here; everything else is Python's. */
static PyObject *apply_traced_ufunc(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    const int has_keywords = keywords != NULL && PyTuple_GET_SIZE(keywords) != 0;
    if (!has_keywords && running_trace.tape != NULL && (count == 3 || count == 4)) {
        ScalarOp *op;
        if (find_called_op(args, &op) < 0)
            return NULL;
        PyObject *result = op == NULL ? NULL : apply_traced(op, args[2], count == 4 ? args[3] : NULL, 0);
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
    if (running_trace.tape == NULL || arity < 1 || arity > 2)
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
        take(given, "integer_class", &PyType_Type, &integer_class) < 0 ||
        take(given, "recording_state", NULL, &recording_state) < 0 ||
        take(given, "error_settings", &PyContextVar_Type, &error_settings) < 0)
        return NULL;
    value_index = find_slot(base, "_index");
    Py_DECREF(base);
    PyObject *functions = PyDict_GetItemString(given, "forwards");
    if (value_index < 0 || functions == NULL || !PyDict_Check(functions)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "connect_traces needs forwards");
        return NULL;
    }
    innermost_name = PyUnicode_InternFromString("innermost");
    Py_XSETREF(traced_ops, PyDict_New());
    if (innermost_name == NULL || traced_ops == NULL)
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
