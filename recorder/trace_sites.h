/* Tracing: where in the user's code each row was recorded.

While a function is traced, only what is gone later is written down, as numbers: for each row the number of its site, and
for each site the call, the instruction, the loop variables and the `wg.group` blocks. Lines, names and groups are found
in bulk when the circuit is written (`wiregrad.frontends.recording.user_code`). A loop of a million rows has few sites,
and straight-line code has few calls. */

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
