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
enum { UNKNOWN = -3 };
enum { NO_SITE = -1, FIRST_OTHER_SITE = -2 }; /* FIRST_OTHER_SITE - k: site k of those that Python found */
#define MAX_STEPS 16
#define STEP_SIZE 3 /* the loop, its variable, and the variable's number */
#define CODE_CACHE_SIZE 64

/* Numbers by instruction: a hash table. Most functions record at few instructions. */
typedef struct {
    int32_t *instructions;
    int64_t *numbers;
    Py_ssize_t capacity, count;
} InstructionTable;

typedef struct {
    PyObject *loops; /* the loops around the instruction: CallTracker.loops_at; NULL until it is asked for */
    PyObject *place; /* its line; NULL until it is asked for */
} InstructionNotes;

/* What is known about a code object; it is kept as long as the sites of the trace. */
typedef struct {
    PyObject *code, *kind; /* the kind is a Python number, or the name of a composite function */
    PyObject *bytecode;    /* of the user's code; else NULL */
    long kind_number;
    int32_t number; /* among the codes of calls; -1 if there is none */
    int is_generator, has_loops, is_inner; /* inner: a lambda, a comprehension or a generator expression */
    int is_searched; /* whether it and all that it calls were searched for tests of identity */
    Py_ssize_t first_variable; /* the number of its first variable among those whose names are collected; -1 at first */
    PyObject *first_name; /* its first parameter; NULL if it has none */
    long first_place;
    PyTypeObject *owner_type; /* the class of the latest first argument, and whether it is a method of that class */
    int is_method;
    InstructionTable instructions;
    InstructionNotes *notes;
    Py_ssize_t notes_capacity;
} CodeNotes;

/* A call of a function of the user's code. */
typedef struct {
    CodeNotes *code;
    PyObject *frame;  /* borrowed: the tracker holds it until the trace ends */
    PyObject *owner;  /* the object whose method it is; NULL for a function, and after the trace */
    PyObject *label;  /* the label of a method's call; NULL if the code says it */
    void *frame_id;
    int32_t number, parent, instruction, depth; /* the call around it, -1 if there is none, and where that one was */
    int is_python; /* whether Python has entered it, so that its parent is not known here */
    int is_searched; /* like that of the code, for this call and those around it */
    int64_t steps;
    InstructionTable sites, inner_calls; /* the latest site, and the latest steps of a call, at each instruction */
    int64_t last_steps;                  /* where the latest steps are in the pool */
    Py_ssize_t loop_count;
    int64_t *step_counts;
} TraceCall;

typedef struct {
    int32_t call, instruction, blocks;
    int64_t steps;
} TraceSite;

/* The sites of the generator that ran last, as long as it is resumed from the same place. Its loops have no variables. */
typedef struct {
    PyObject *frame, *outer; /* the frames of the generator, and of the call that it runs for; NULL if none is kept */
    int32_t instruction;     /* of that call, and the steps of the loops around it */
    int step_count;
    int64_t steps[MAX_STEPS * STEP_SIZE];
    InstructionTable sites;
} GeneratorSites;

typedef struct {
    PyObject_HEAD
    GeneratorSites generator;
    PyObject *tracker, *functions, *composite_calls, *opened_groups, *read_blocks;
    PyObject *known_calls; /* the tracker's dict: frame to the number of its call, or to what Python knows about it */
    PyObject *python_frames; /* dict: frame that Python has entered to the number of its call; None for a generator */
    PyObject *labels; /* dict: the number of a call, an object and a code to the label of a method that is called there;
                         an object, another one and a code to the label, and the steps from one to the other */
    PyObject *codes;       /* dict: address of a code object to a capsule of its CodeNotes */
    PyObject *call_codes;  /* list: the code objects of calls */
    PyObject *blocks;      /* list of tuples of blocks; the first is empty */
    PyObject *last_frame, *call_frame;
    TraceCall *last_call;
    int64_t call_count, max_loop_steps;
    TraceCall **calls;
    Py_ssize_t user_call_count, user_call_capacity;
    int32_t *rows;
    Py_ssize_t row_count, row_capacity;
    TraceSite *sites;
    Py_ssize_t site_count, site_capacity;
    int64_t *steps;
    Py_ssize_t step_count, step_capacity;
    Py_ssize_t row_limit; /* the number of rows after which `find_limit_error` is called, once; 0 if there is no limit */
    PyObject *find_limit_error;
    int is_over_limit;
    PyObject *cached_codes[CODE_CACHE_SIZE];
    CodeNotes *cached_notes[CODE_CACHE_SIZE];
} TraceSites;

static PyObject *integer_class;
static Py_ssize_t value_index; /* the slot of a value's offset */

/* The variables that held the values of a tape: a list of their names, and for each row the number of its name. */
typedef struct {
    PyObject *tape, *names;
    int32_t *numbers;
    Py_ssize_t count;
} NamedRows;

static void free_table(InstructionTable *table)
{
    PyMem_Free(table->instructions);
    PyMem_Free(table->numbers);
}

static void free_code_notes(PyObject *capsule)
{
    CodeNotes *notes = PyCapsule_GetPointer(capsule, NULL);
    for (Py_ssize_t k = 0; k < notes->instructions.count; k++) {
        Py_XDECREF(notes->notes[k].loops);
        Py_XDECREF(notes->notes[k].place);
    }
    free_table(&notes->instructions);
    PyMem_Free(notes->notes);
    Py_XDECREF(notes->owner_type);
    Py_XDECREF(notes->first_name);
    Py_XDECREF(notes->kind);
    Py_XDECREF(notes->bytecode);
    Py_XDECREF(notes->code);
    PyMem_Free(notes);
}

static void free_call(TraceCall *call)
{
    free_table(&call->sites);
    free_table(&call->inner_calls);
    PyMem_Free(call->step_counts);
    Py_XDECREF(call->label);
    Py_XDECREF(call->owner);
    PyMem_Free(call);
}

static void forget_generator(TraceSites *self)
{
    Py_CLEAR(self->generator.frame);
    Py_CLEAR(self->generator.outer);
    free_table(&self->generator.sites);
    memset(&self->generator.sites, 0, sizeof(InstructionTable));
}

static int sites_traverse(TraceSites *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->generator.frame);
    Py_VISIT(self->generator.outer);
    Py_VISIT(self->tracker);
    Py_VISIT(self->functions);
    Py_VISIT(self->composite_calls);
    Py_VISIT(self->opened_groups);
    Py_VISIT(self->read_blocks);
    Py_VISIT(self->known_calls);
    Py_VISIT(self->python_frames);
    Py_VISIT(self->labels);
    Py_VISIT(self->call_codes);
    Py_VISIT(self->codes);
    Py_VISIT(self->blocks);
    Py_VISIT(self->call_frame);
    Py_VISIT(self->find_limit_error);
    for (Py_ssize_t k = 0; k < self->user_call_count; k++)
        Py_VISIT(self->calls[k]->owner);
    return 0;
}

static int sites_clear(TraceSites *self)
{
    Py_CLEAR(self->tracker);
    Py_CLEAR(self->functions);
    Py_CLEAR(self->composite_calls);
    Py_CLEAR(self->opened_groups);
    Py_CLEAR(self->read_blocks);
    self->last_frame = NULL;
    self->last_call = NULL;
    forget_generator(self);
    Py_CLEAR(self->known_calls);
    Py_CLEAR(self->python_frames);
    Py_CLEAR(self->labels);
    for (Py_ssize_t k = 0; k < self->user_call_count; k++)
        Py_CLEAR(self->calls[k]->owner);
    Py_CLEAR(self->blocks);
    Py_CLEAR(self->call_frame);
    Py_CLEAR(self->find_limit_error);
    return 0;
}

static void sites_dealloc(TraceSites *self)
{
    PyTypeObject *kind = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    sites_clear(self);
    for (Py_ssize_t k = 0; k < self->user_call_count; k++)
        free_call(self->calls[k]);
    PyMem_Free(self->calls);
    Py_XDECREF(self->call_codes);
    Py_XDECREF(self->codes); /* calls refer to what is known about their code */
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
    if (keywords != NULL || self->known_calls != NULL) {
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
    self->composite_calls = Py_NewRef(calls);
    self->opened_groups = Py_NewRef(opened_groups);
    self->read_blocks = Py_NewRef(read_blocks);
    self->python_frames = PyDict_New();
    self->labels = PyDict_New();
    self->codes = PyDict_New();
    self->call_codes = PyList_New(0);
    self->blocks = Py_BuildValue("[()]");
    if (self->python_frames == NULL || self->labels == NULL || self->codes == NULL || self->call_codes == NULL ||
        self->blocks == NULL)
        return -1;
    self->known_calls = PyObject_GetAttrString(tracker, "calls");
    if (self->known_calls != NULL && !PyDict_Check(self->known_calls)) {
        Py_CLEAR(self->known_calls);
        PyErr_SetString(PyExc_TypeError, "the calls of a tracker are a dict");
    }
    return self->known_calls == NULL ? -1 : 0;
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
    if (self->row_limit == 0 || row < self->row_limit)
        return 0;
    /* Once: code that catches the error goes on as if there were no limit. */
    self->row_limit = 0;
    PyObject *error = PyObject_CallNoArgs(self->find_limit_error);
    if (error != NULL && error != Py_None) {
        self->is_over_limit = 1;
        PyErr_SetNone(error);
    }
    Py_XDECREF(error);
    return PyErr_Occurred() ? -1 : 0;
}

static CodeNotes *make_code_notes(TraceSites *self, PyObject *code)
{
    CodeNotes *notes = PyMem_Calloc(1, sizeof(CodeNotes));
    if (notes == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    PyObject *capsule = PyCapsule_New(notes, NULL, free_code_notes);
    if (capsule == NULL) {
        PyMem_Free(notes);
        return NULL;
    }
    notes->number = -1;
    notes->first_variable = -1;
    notes->code = Py_NewRef(code);
    notes->kind = PyObject_CallMethod(self->tracker, "classify_code", "OO", code, self->functions);
    PyObject *facts = NULL, *first = NULL;
    int failed = notes->kind == NULL;
    if (!failed)
        notes->kind_number = PyLong_Check(notes->kind) ? PyLong_AsLong(notes->kind) : FUNCTION_CODE;
    if (!failed && notes->kind_number == USER_CODE) {
        notes->bytecode = PyCode_GetCode((PyCodeObject *)code);
        facts = notes->bytecode == NULL ? NULL : PyObject_CallMethod(self->tracker, "describe_code", "O", code);
        failed = facts == NULL || !PyArg_ParseTuple(facts, "pppOl", &notes->is_generator, &notes->has_loops,
                                                    &notes->is_inner, &first, &notes->first_place);
        if (!failed && first != Py_None)
            notes->first_name = Py_NewRef(first);
        Py_XDECREF(facts);
    }
    PyObject *key = failed ? NULL : PyLong_FromVoidPtr(code);
    failed = key == NULL || PyDict_SetItem(self->codes, key, capsule) < 0;
    Py_XDECREF(key);
    Py_DECREF(capsule); /* the dict holds it */
    return failed ? NULL : notes;
}

/* What is known about a code object. */
static CodeNotes *notes_of_code(TraceSites *self, PyObject *code)
{
    /* By address: Python hashes a code object by its contents. */
    const size_t place = ((uintptr_t)code >> 5) % CODE_CACHE_SIZE;
    if (self->cached_codes[place] == code)
        return self->cached_notes[place];
    PyObject *key = PyLong_FromVoidPtr(code);
    if (key == NULL)
        return NULL;
    PyObject *entry = PyDict_GetItemWithError(self->codes, key);
    Py_DECREF(key);
    CodeNotes *notes = NULL;
    if (entry != NULL)
        notes = PyCapsule_GetPointer(entry, NULL);
    else if (!PyErr_Occurred())
        notes = make_code_notes(self, code);
    if (notes == NULL)
        return NULL;
    self->cached_codes[place] = code;
    return self->cached_notes[place] = notes;
}

static CodeNotes *notes_of_frame(TraceSites *self, PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    CodeNotes *notes = notes_of_code(self, (PyObject *)code);
    Py_DECREF(code); /* the frame holds it */
    return notes;
}

enum { CACHE_OPCODE = 0 };

/* The instruction that a frame is at, as `find_instruction` finds it. */
static int32_t instruction_of(const CodeNotes *code, PyFrameObject *frame)
{
    int32_t at = (int32_t)PyFrame_GetLasti(frame);
    while (code->bytecode != NULL && at > 0 && PyBytes_AS_STRING(code->bytecode)[at] == CACHE_OPCODE)
        at -= 2;
    return at;
}

static int grow_table(InstructionTable *table)
{
    const Py_ssize_t capacity = table->capacity == 0 ? 4 : 2 * table->capacity;
    int32_t *instructions = PyMem_Malloc((size_t)capacity * sizeof(int32_t));
    int64_t *numbers = PyMem_Malloc((size_t)capacity * sizeof(int64_t));
    if (instructions == NULL || numbers == NULL) {
        PyMem_Free(instructions);
        PyMem_Free(numbers);
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t k = 0; k < capacity; k++)
        instructions[k] = -1;
    for (Py_ssize_t k = 0; k < table->capacity; k++)
        if (table->instructions[k] >= 0) {
            Py_ssize_t at = (table->instructions[k] / 2) & (capacity - 1);
            while (instructions[at] >= 0)
                at = (at + 1) & (capacity - 1);
            instructions[at] = table->instructions[k];
            numbers[at] = table->numbers[k];
        }
    free_table(table);
    table->instructions = instructions;
    table->numbers = numbers;
    table->capacity = capacity;
    return 0;
}

/* Where the number of an instruction is; it is UNKNOWN at first. */
static int64_t *number_at(InstructionTable *table, int32_t instruction)
{
    if (4 * (table->count + 1) > 3 * table->capacity && grow_table(table) < 0)
        return NULL;
    Py_ssize_t at = (instruction / 2) & (table->capacity - 1);
    while (table->instructions[at] >= 0 && table->instructions[at] != instruction)
        at = (at + 1) & (table->capacity - 1);
    if (table->instructions[at] < 0) {
        table->instructions[at] = instruction;
        table->numbers[at] = UNKNOWN;
        table->count++;
    }
    return &table->numbers[at];
}

/* What is known about an instruction; valid until the next call of this function. */
static InstructionNotes *notes_of_instruction(CodeNotes *code, int32_t instruction)
{
    const Py_ssize_t fresh = code->instructions.count;
    if (reserve((void **)&code->notes, &code->notes_capacity, fresh + 1, sizeof(InstructionNotes)) < 0)
        return NULL;
    int64_t *number = number_at(&code->instructions, instruction);
    if (number == NULL)
        return NULL;
    if (*number == UNKNOWN) {
        code->notes[fresh] = (InstructionNotes){NULL, NULL};
        *number = fresh;
    }
    return &code->notes[*number];
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
   LARGE_STEP if one is too large. Loops with more than `max_steps` steps are left out. */
static int read_steps(TraceSites *self, TraceCall *call, PyFrameObject *frame, int32_t instruction, int64_t max_steps,
                      int64_t *steps)
{
    if (!call->code->has_loops)
        return 0;
    InstructionNotes *notes = notes_of_instruction(call->code, instruction);
    if (notes == NULL)
        return -1;
    if (notes->loops == NULL) {
        PyObject *loops = PyObject_CallMethod(self->tracker, "loops_at", "Oi", call->code->code, (int)instruction);
        notes = loops == NULL ? NULL : notes_of_instruction(call->code, instruction);
        if (notes == NULL) {
            Py_XDECREF(loops);
            return -1;
        }
        Py_XSETREF(notes->loops, loops);
    }
    PyObject *loops = notes->loops;
    int count = 0;
    const Py_ssize_t size = PyTuple_GET_SIZE(loops);
    for (Py_ssize_t k = 0; k < size && count < MAX_STEPS * STEP_SIZE; k++) {
        PyObject *loop = PyTuple_GET_ITEM(loops, k);
        PyObject *targets = PyTuple_GET_ITEM(loop, 1);
        const long number = PyLong_AsLong(PyTuple_GET_ITEM(loop, 0));
        if (number < call->loop_count && call->step_counts[number] > max_steps)
            continue;
        for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(targets); j++) {
            int64_t step = 0;
            const int found = read_step(frame, PyTuple_GET_ITEM(targets, j), &step);
            if (found < 0)
                return -1;
            if (found == 2)
                return LARGE_STEP;
            if (found) {
                steps[count++] = number;
                steps[count++] = j;
                steps[count++] = step;
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
static int64_t add_steps(TraceSites *self, TraceCall *call, const int64_t *steps, int count)
{
    if (count == 0)
        return -1;
    if (call->last_steps >= 0 && has_steps(self, call->last_steps, steps, count))
        return call->last_steps;
    const Py_ssize_t at = self->step_count;
    if (reserve((void **)&self->steps, &self->step_capacity, at + 1 + count, sizeof(int64_t)) < 0)
        return -2;
    self->steps[at] = count;
    memcpy(self->steps + at + 1, steps, (size_t)count * sizeof(int64_t));
    self->step_count = at + 1 + count;
    return call->last_steps = at;
}

/* Count the steps of loops, and stop reading the variables of those with very many; -1 on an error. */
static int count_steps(TraceSites *self, TraceCall *call, int64_t before, const int64_t *steps, int count)
{
    for (int k = 0; k < count; k += STEP_SIZE) {
        int is_known = 0;
        const int64_t length = before < 0 ? 0 : self->steps[before];
        for (int64_t j = 0; j < length; j += STEP_SIZE)
            is_known |= memcmp(self->steps + before + 1 + j, steps + k, STEP_SIZE * sizeof(int64_t)) == 0;
        if (is_known)
            continue;
        const Py_ssize_t loop = (Py_ssize_t)steps[k];
        if (loop >= call->loop_count) {
            const Py_ssize_t known = call->loop_count;
            if (reserve((void **)&call->step_counts, &call->loop_count, loop + 1, sizeof(int64_t)) < 0)
                return -1;
            memset(call->step_counts + known, 0, (size_t)(call->loop_count - known) * sizeof(int64_t));
        }
        if (++call->step_counts[loop] == self->max_loop_steps + 1) {
            PyObject *done = PyObject_CallMethod(self->tracker, "mark_long_loop", "in", (int)call->number, loop);
            if (done == NULL)
                return -1;
            Py_DECREF(done);
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

/* A new call of a function; NULL on an error. */
static TraceCall *make_call(TraceSites *self, CodeNotes *code, PyFrameObject *frame)
{
    if (code->number < 0) {
        if (PyList_Append(self->call_codes, code->code) < 0)
            return NULL;
        code->number = (int32_t)(PyList_GET_SIZE(self->call_codes) - 1);
    }
    if (reserve((void **)&self->calls, &self->user_call_capacity, self->user_call_count + 1, sizeof(TraceCall *)) < 0)
        return NULL;
    TraceCall *call = PyMem_Calloc(1, sizeof(TraceCall));
    if (call == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    call->code = code;
    call->frame = (PyObject *)frame;
    call->frame_id = frame;
    call->number = (int32_t)self->user_call_count;
    call->parent = call->instruction = -1;
    call->steps = call->last_steps = -1;
    self->calls[self->user_call_count++] = call;
    return call;
}

/* The first argument of a call if it is the object whose method that is, a new reference; NULL if it is not. */
static PyObject *find_owner(TraceSites *self, CodeNotes *code, PyFrameObject *frame)
{
    PyObject *first = code->first_name == NULL ? NULL : read_local(frame, code->first_name, code->first_place);
    if (first == NULL)
        return NULL;
    int is_method = 0;
    if (first != Py_None && !PyFloat_Check(first) && !PyLong_Check(first) && !PyObject_TypeCheck(first, value_class)) {
        if (code->owner_type != Py_TYPE(first)) {
            PyObject *asked = PyObject_CallMethod(self->tracker, "is_method", "OO", code->code, first);
            is_method = asked == NULL ? -1 : PyObject_IsTrue(asked);
            Py_XDECREF(asked);
            if (is_method >= 0) {
                Py_XSETREF(code->owner_type, (PyTypeObject *)Py_NewRef(Py_TYPE(first)));
                code->is_method = is_method;
            }
        }
        else
            is_method = code->is_method;
    }
    if (is_method > 0)
        return first;
    Py_DECREF(first);
    return NULL;
}

/* The part of an object that steps lead to, a new reference; NULL if that cannot be told without running Python code. */
static PyObject *follow_steps(PyObject *object, PyObject *steps)
{
    Py_INCREF(object);
    for (Py_ssize_t k = 0; object != NULL && k < PyTuple_GET_SIZE(steps); k++) {
        PyObject *step = PyTuple_GET_ITEM(steps, k), *part = NULL;
        if (PyLong_Check(step)) {
            const Py_ssize_t at = PyLong_AsSsize_t(step);
            if (PyList_CheckExact(object) && at < PyList_GET_SIZE(object))
                part = Py_NewRef(PyList_GET_ITEM(object, at));
            else if (PyTuple_CheckExact(object) && at < PyTuple_GET_SIZE(object))
                part = Py_NewRef(PyTuple_GET_ITEM(object, at));
        }
        else if (Py_TYPE(object)->tp_getattro == PyObject_GenericGetAttr && _PyType_Lookup(Py_TYPE(object), step) == NULL)
            part = PyObject_GenericGetAttr(object, step);
        PyErr_Clear();
        Py_SETREF(object, part);
    }
    return object;
}

/* The label that a method had when another call of its scope's object called it; a borrowed reference, or NULL. */
static PyObject *find_kept_label(TraceSites *self, PyObject *scope_owner, PyObject *owner, PyObject *key)
{
    PyObject *entry = PyDict_GetItemWithError(self->labels, key);
    if (entry == NULL)
        return NULL;
    PyObject *steps = PyTuple_GET_ITEM(entry, 1);
    PyObject *part = PyTuple_GET_SIZE(steps) == 0 ? Py_NewRef(scope_owner) : follow_steps(scope_owner, steps);
    Py_XDECREF(part);
    return part == owner ? PyTuple_GET_ITEM(entry, 0) : NULL;
}

/* Ask Python for the label of a method's call, and keep it as long as it lasts; -1 on an error. */
static int ask_label(TraceSites *self, TraceCall *call, const TraceCall *scope, PyObject *key, PyObject *owner_key)
{
    PyObject *label, *steps;
    int is_lasting = 0, failed = 1;
    PyObject *found =
        PyObject_CallMethod(self->tracker, "label_method", "iOOOi", (int)scope->number, call->owner, call->code->code,
                            self->calls[call->parent]->code->code, (int)call->instruction);
    if (found != NULL && PyArg_ParseTuple(found, "UpO", &label, &is_lasting, &steps)) {
        call->label = Py_NewRef(label);
        failed = is_lasting && PyDict_SetItem(self->labels, key, label) < 0;
        if (!failed && PyTuple_Check(steps) && owner_key != NULL) {
            PyObject *entry = Py_BuildValue("(OO)", label, steps);
            failed = entry == NULL || PyDict_SetItem(self->labels, owner_key, entry) < 0;
            Py_XDECREF(entry);
        }
    }
    Py_XDECREF(found);
    return failed ? -1 : 0;
}

/* Find the label of a method's call; -1 on an error. */
static int label_method(TraceSites *self, TraceCall *call)
{
    const TraceCall *scope = self->calls[call->parent];
    while (scope->code->is_inner && scope->parent >= 0)
        scope = self->calls[scope->parent];
    const Py_ssize_t owner = (Py_ssize_t)call->owner, code = (Py_ssize_t)call->code->code;
    PyObject *key = Py_BuildValue("(inn)", (int)scope->number, owner, code), *owner_key = NULL;
    PyObject *label = key == NULL ? NULL : PyDict_GetItemWithError(self->labels, key);
    if (key != NULL && label == NULL && !PyErr_Occurred() && scope->owner != NULL) {
        owner_key = Py_BuildValue("(nnnO)", (Py_ssize_t)scope->owner, owner, code, Py_None);
        label = owner_key == NULL ? NULL : find_kept_label(self, scope->owner, call->owner, owner_key);
        if (label != NULL && PyDict_SetItem(self->labels, key, label) < 0)
            label = NULL;
    }
    if (label != NULL)
        call->label = Py_NewRef(label);
    const int failed = PyErr_Occurred() || (label == NULL && ask_label(self, call, scope, key, owner_key) < 0);
    Py_XDECREF(key);
    Py_XDECREF(owner_key);
    return failed ? -1 : 0;
}

/* Note the call of a frame, whose caller is known; NULL on an error, and without one if Python has to enter it. */
static TraceCall *add_call(TraceSites *self, PyFrameObject *frame, CodeNotes *code, TraceCall *parent)
{
    int32_t instruction = -1;
    int64_t at = -1;
    if (parent != NULL) {
        PyFrameObject *outer = (PyFrameObject *)parent->frame;
        int64_t steps[MAX_STEPS * STEP_SIZE];
        instruction = instruction_of(parent->code, outer);
        const int count = read_steps(self, parent, outer, instruction, self->max_loop_steps, steps);
        if (count < 0)
            return NULL;
        if (count > 0) {
            int64_t *before = number_at(&parent->inner_calls, instruction);
            if (before == NULL || (*before != UNKNOWN && !has_steps(self, *before, steps, count) &&
                                   count_steps(self, parent, *before, steps, count) < 0))
                return NULL;
            at = add_steps(self, parent, steps, count);
            if (at < -1)
                return NULL;
            *number_at(&parent->inner_calls, instruction) = at;
        }
    }
    TraceCall *call = make_call(self, code, frame);
    if (call == NULL)
        return NULL;
    call->instruction = instruction;
    call->steps = at;
    call->parent = parent == NULL ? -1 : parent->number;
    call->depth = parent == NULL ? 0 : parent->depth + 1;
    PyObject *number = PyLong_FromLong(call->number);
    const int failed = number == NULL || PyDict_SetItem(self->known_calls, (PyObject *)frame, number) < 0;
    Py_XDECREF(number);
    if (failed)
        return NULL;
    call->owner = find_owner(self, code, frame);
    if (PyErr_Occurred() || (call->owner != NULL && parent != NULL && label_method(self, call) < 0))
        return NULL;
    return call;
}

/* The frame of the user's code that called a frame, a new reference; NULL outside the traced function, and on errors. */
static PyFrameObject *find_caller(TraceSites *self, PyFrameObject *frame, CodeNotes **code)
{
    PyFrameObject *outer = PyFrame_GetBack(frame);
    while (outer != NULL) {
        *code = notes_of_frame(self, outer);
        if (*code != NULL && (*code)->kind_number == USER_CODE)
            return outer;
        const int is_end = *code == NULL || (*code)->kind_number == TRACED_CALL_CODE;
        PyFrameObject *next = is_end ? NULL : PyFrame_GetBack(outer);
        Py_DECREF(outer);
        outer = next;
    }
    return NULL;
}

/* The call of a frame that is noted here already; NULL if it is not. Most often it is the caller of the latest one. */
static TraceCall *look_up_call(TraceSites *self, PyFrameObject *frame, int *is_python)
{
    const TraceCall *last = self->last_call;
    *is_python = 0;
    if (last != NULL && last->parent >= 0 && self->calls[last->parent]->frame == (PyObject *)frame)
        return self->calls[last->parent];
    PyObject *entry = PyDict_GetItemWithError(self->known_calls, (PyObject *)frame);
    *is_python = entry != NULL && !PyLong_CheckExact(entry);
    return entry == NULL || *is_python ? NULL : self->calls[PyLong_AsLong(entry)];
}

/* Note the calls of a frame, which is not known yet, and of those around it; NULL on an error, and without one if Python
   has to do that: it knows generators, which may be resumed from anywhere. */
static TraceCall *enter_frame(TraceSites *self, PyFrameObject *frame, CodeNotes *code)
{
    PyObject *unknown = NULL; /* a list of frames, if there are several */
    TraceCall *call = NULL;
    CodeNotes *outer_code = code;
    int is_python = 0, failed = 0;
    PyFrameObject *outer = (PyFrameObject *)Py_NewRef(frame);
    while (outer != NULL && !failed) {
        if (outer_code->is_generator)
            break;
        if (outer != frame) {
            unknown = unknown == NULL ? PyList_New(0) : unknown;
            failed = unknown == NULL || PyList_Append(unknown, (PyObject *)outer) < 0;
        }
        PyFrameObject *next = failed ? NULL : find_caller(self, outer, &outer_code);
        Py_SETREF(outer, next);
        if (outer != NULL && !failed)
            call = look_up_call(self, outer, &is_python);
        failed = failed || PyErr_Occurred();
        if (call != NULL || is_python)
            break;
    }
    const int is_possible = !failed && (outer == NULL || call != NULL);
    Py_XDECREF(outer);
    for (Py_ssize_t k = !is_possible || unknown == NULL ? -1 : PyList_GET_SIZE(unknown) - 1; k >= 0; k--) {
        PyFrameObject *inner = (PyFrameObject *)PyList_GET_ITEM(unknown, k);
        CodeNotes *notes = notes_of_frame(self, inner);
        call = notes == NULL ? NULL : add_call(self, inner, notes, call);
        if (call == NULL) {
            Py_DECREF(unknown);
            return NULL;
        }
    }
    Py_XDECREF(unknown);
    return is_possible ? add_call(self, frame, code, call) : NULL;
}

/* The call of a frame that Python has entered, or enters now; NULL without an error if Python finds its sites. */
static TraceCall *enter_in_python(TraceSites *self, PyFrameObject *frame, CodeNotes *code)
{
    PyObject *entry = PyDict_GetItemWithError(self->python_frames, (PyObject *)frame);
    if (entry != NULL)
        return entry == Py_None ? NULL : self->calls[PyLong_AsLong(entry)];
    if (PyErr_Occurred())
        return NULL;
    PyObject *known = code->is_generator ? NULL : PyObject_CallMethod(self->tracker, "find_entered", "O", frame);
    if (known == NULL && !code->is_generator)
        return NULL;
    TraceCall *call = known == NULL ? NULL : make_call(self, code, frame);
    PyObject *number = known == NULL ? Py_NewRef(Py_None) : call == NULL ? NULL : PyLong_FromLong(call->number);
    int failed = number == NULL || PyDict_SetItem(self->python_frames, (PyObject *)frame, number) < 0;
    if (!failed && call != NULL) {
        call->is_python = 1;
        PyObject *done = PyObject_CallMethod(self->tracker, "note_number", "OO", known, number);
        failed = done == NULL;
        Py_XDECREF(done);
    }
    Py_XDECREF(number);
    Py_XDECREF(known);
    return failed ? NULL : call;
}

/* Whether a generator expression runs for the caller, at the instruction and in the steps, for which it was entered; -1
   on an error. */
static int is_still_resumed(TraceSites *self, const TraceCall *call, PyFrameObject *frame)
{
    if (call->parent < 0)
        return 0;
    TraceCall *parent = self->calls[call->parent];
    PyFrameObject *outer = PyFrame_GetBack(frame);
    int is_same = outer != NULL && (PyObject *)outer == parent->frame;
    if (is_same) {
        int64_t steps[MAX_STEPS * STEP_SIZE];
        const int32_t instruction = instruction_of(parent->code, outer);
        const int count = read_steps(self, parent, outer, instruction, self->max_loop_steps, steps);
        if (PyErr_Occurred())
            is_same = -1;
        else
            is_same = count >= 0 && instruction == call->instruction && has_steps(self, call->steps, steps, count);
    }
    Py_XDECREF(outer);
    return is_same;
}

static TraceCall *call_of_frame(TraceSites *, PyFrameObject *, CodeNotes *);

/* The call of a generator expression that a function of the user's, which is no generator, runs at one instruction; NULL
   without an error for others: Python finds their sites, because they may be resumed from anywhere. */
static TraceCall *call_of_expression(TraceSites *self, PyFrameObject *frame, CodeNotes *code)
{
    int is_python;
    TraceCall *call = look_up_call(self, frame, &is_python);
    if (call != NULL)
        return is_still_resumed(self, call, frame) == 1 ? call : NULL;
    if (is_python || PyErr_Occurred())
        return NULL;
    PyFrameObject *outer = PyFrame_GetBack(frame);
    CodeNotes *outer_code = outer == NULL ? NULL : notes_of_frame(self, outer);
    if (outer_code != NULL && outer_code->kind_number == USER_CODE && !outer_code->is_generator) {
        TraceCall *parent = call_of_frame(self, outer, outer_code);
        if (parent != NULL && !parent->is_python)
            call = add_call(self, frame, code, parent);
    }
    Py_XDECREF(outer);
    return call;
}

/* The call of a frame of the user's code; NULL without an error if Python finds its sites. */
static TraceCall *call_of_frame(TraceSites *self, PyFrameObject *frame, CodeNotes *code)
{
    if (code->is_generator && code->is_inner)
        return call_of_expression(self, frame, code);
    if ((PyObject *)frame == self->last_frame)
        return self->last_call;
    int is_python;
    TraceCall *call = look_up_call(self, frame, &is_python);
    if (call == NULL && !is_python && !PyErr_Occurred())
        call = enter_frame(self, frame, code);
    if (call == NULL && !PyErr_Occurred())
        call = enter_in_python(self, frame, code);
    if (call == NULL)
        return NULL;
    self->last_frame = (PyObject *)frame;
    return self->last_call = call;
}

/* Whether a generator runs for the call, at the instruction and in the steps of its loops, for which its sites are kept;
   if not, they are forgotten, and kept for what runs it now if that is known here. -1 on an error. */
static int is_resumed_alike(TraceSites *self, PyFrameObject *frame)
{
    GeneratorSites *kept = &self->generator;
    PyFrameObject *outer = PyFrame_GetBack(frame);
    CodeNotes *code = outer == NULL ? NULL : notes_of_frame(self, outer);
    int is_python = 0;
    TraceCall *call = NULL;
    if (code != NULL && code->kind_number == USER_CODE && !code->is_generator)
        call = look_up_call(self, outer, &is_python);
    int64_t steps[MAX_STEPS * STEP_SIZE];
    const int32_t instruction = code == NULL ? -1 : instruction_of(code, outer);
    const int count = call == NULL ? LARGE_STEP : read_steps(self, call, outer, instruction, INT64_MAX, steps);
    if (PyErr_Occurred()) {
        Py_XDECREF(outer);
        return -1;
    }
    const int is_same = count >= 0 && kept->frame == (PyObject *)frame && kept->outer == (PyObject *)outer &&
                        kept->instruction == instruction && kept->step_count == count &&
                        memcmp(kept->steps, steps, (size_t)count * sizeof(int64_t)) == 0;
    if (!is_same) {
        forget_generator(self);
        if (count >= 0) {
            kept->frame = Py_NewRef(frame);
            kept->outer = Py_NewRef(outer);
            kept->instruction = instruction;
            kept->step_count = count;
            memcpy(kept->steps, steps, (size_t)count * sizeof(int64_t));
        }
    }
    Py_XDECREF(outer);
    return is_same;
}

/* The place where the number of the site of a generator is kept; NULL if it is not kept, and on an error. */
static int64_t *find_generator_site(TraceSites *self, PyFrameObject *frame, CodeNotes *code)
{
    if (!code->is_generator || code->has_loops || PyDict_GET_SIZE(self->opened_groups) != 0)
        return NULL;
    if (is_resumed_alike(self, frame) < 0 || self->generator.frame == NULL)
        return NULL;
    return number_at(&self->generator.sites, instruction_of(code, frame));
}

/* Note a row at a site that Python finds; -1 on an error. */
static int note_elsewhere(TraceSites *self, Py_ssize_t offset, PyFrameObject *frame)
{
    PyObject *other = PyObject_CallMethod(self->tracker, "locate_elsewhere", "O", frame);
    const long number = other == NULL ? -1 : PyLong_AsLong(other);
    Py_XDECREF(other);
    return number < 0 ? -1 : set_row(self, offset, (int32_t)(FIRST_OTHER_SITE - number));
}

/* Note a row that is recorded while a generator runs, at a site that is kept or that Python finds; -1 on an error. */
static int note_in_generator(TraceSites *self, Py_ssize_t offset, PyFrameObject *frame, CodeNotes *code)
{
    const int64_t *known = find_generator_site(self, frame, code);
    if (PyErr_Occurred())
        return -1;
    if (known != NULL && *known != UNKNOWN)
        return set_row(self, offset, (int32_t)*known);
    if (note_elsewhere(self, offset, frame) < 0)
        return -1;
    /* What Python did meanwhile may have moved the place. */
    int64_t *place = known == NULL ? NULL : find_generator_site(self, frame, code);
    if (place != NULL)
        *place = self->rows[offset / ROW_SIZE];
    return PyErr_Occurred() ? -1 : 0;
}

/* Note a row that is recorded while a frame of the user's code is at an instruction; -1 on an error. */
static int note_in_frame(TraceSites *self, Py_ssize_t offset, PyFrameObject *frame, CodeNotes *code)
{
    TraceCall *call = call_of_frame(self, frame, code);
    if (call == NULL)
        return PyErr_Occurred() ? -1 : note_in_generator(self, offset, frame, code);
    const int32_t instruction = instruction_of(call->code, frame);
    const int32_t blocks = find_blocks(self);
    if (blocks < 0)
        return -1;
    int64_t steps[MAX_STEPS * STEP_SIZE];
    const int count = read_steps(self, call, frame, instruction, self->max_loop_steps, steps);
    if (count < 0)
        return count == LARGE_STEP ? note_elsewhere(self, offset, frame) : -1;
    int64_t *site = number_at(&call->sites, instruction);
    if (site == NULL)
        return -1;
    if (*site != UNKNOWN) {
        const TraceSite *before = &self->sites[*site];
        if (before->blocks == blocks && has_steps(self, before->steps, steps, count))
            return set_row(self, offset, (int32_t)*site);
        if (count_steps(self, call, before->steps, steps, count) < 0)
            return -1;
    }
    const int64_t at = add_steps(self, call, steps, count);
    if (at < -1 || reserve((void **)&self->sites, &self->site_capacity, self->site_count + 1, sizeof(TraceSite)) < 0)
        return -1;
    const int32_t fresh = (int32_t)self->site_count++;
    self->sites[fresh] = (TraceSite){call->number, instruction, blocks, at};
    *number_at(&call->sites, instruction) = fresh;
    return set_row(self, offset, fresh);
}

/* Note that a composite function recorded a row; -1 on an error. */
static int note_composite(TraceSites *self, Py_ssize_t offset, PyObject *frame, PyObject *name)
{
    if (frame != self->call_frame) {
        /* The frame is kept until the next call: the address of one that is gone may be that of the next. */
        Py_XSETREF(self->call_frame, Py_NewRef(frame));
        self->call_count++;
    }
    PyObject *key = PyLong_FromSsize_t(offset);
    PyObject *call = key == NULL ? NULL : Py_BuildValue("(OL)", name, (long long)self->call_count);
    const int failed = call == NULL || PyDict_SetItem(self->composite_calls, key, call) < 0;
    Py_XDECREF(key);
    Py_XDECREF(call);
    return failed ? -1 : 0;
}

/* Note a row where Python stands now: walk from the running frame out to the user's code; -1 on an error. */
static int note_row(TraceSites *self, Py_ssize_t offset)
{
    PyFrameObject *frame = PyEval_GetFrame();
    if (self->tracker == NULL)
        return set_row(self, offset, NO_SITE); /* the trace has ended */
    if (frame != NULL && (PyObject *)frame == self->last_frame)
        return note_in_frame(self, offset, frame, self->last_call->code);
    Py_XINCREF(frame);
    PyObject *call_frame = NULL, *call_name = NULL;
    CodeNotes *code = NULL;
    int failed = 0, is_user = 0;
    while (frame != NULL) {
        code = notes_of_frame(self, frame);
        failed = code == NULL;
        is_user = !failed && code->kind_number == USER_CODE;
        if (failed || is_user || code->kind_number == TRACED_CALL_CODE)
            break;
        if (code->kind_number == FUNCTION_CODE) {
            Py_XSETREF(call_frame, Py_NewRef(frame));
            call_name = code->kind;
        }
        PyFrameObject *outer = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = outer;
    }
    if (!failed && call_frame != NULL)
        failed = note_composite(self, offset, call_frame, call_name) < 0;
    Py_XDECREF(call_frame);
    if (!failed)
        failed = is_user ? note_in_frame(self, offset, frame, code) < 0 : set_row(self, offset, NO_SITE) < 0;
    Py_XDECREF(frame);
    return failed ? -1 : 0;
}

static PyObject *sites_note(TraceSites *self, PyObject *offset)
{
    const Py_ssize_t at = PyLong_AsSsize_t(offset);
    if ((at == -1 && PyErr_Occurred()) || self->known_calls == NULL || note_row(self, at) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* site_at(offset): the code and the instruction of a row; the number of a site that Python found; None if it has none. */
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
    const TraceSite *found = &self->sites[site];
    return Py_BuildValue("(Oi)", self->calls[found->call]->code->code, (int)found->instruction);
}

/* read_call(number): the code, the frame or None, its address, the parent and its instruction and steps, the label or
   None, and the owner or None. */
static PyObject *sites_read_call(TraceSites *self, PyObject *wanted)
{
    const Py_ssize_t number = PyLong_AsSsize_t(wanted);
    if (number < 0 || number >= self->user_call_count) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_IndexError, "there is no such call");
        return NULL;
    }
    const TraceCall *call = self->calls[number];
    const int64_t count = call->steps < 0 ? 0 : self->steps[call->steps];
    PyObject *steps = PyTuple_New((Py_ssize_t)count);
    for (int64_t k = 0; steps != NULL && k < count; k++) {
        PyObject *step = PyLong_FromLongLong(self->steps[call->steps + 1 + k]);
        if (step == NULL)
            Py_CLEAR(steps);
        else
            PyTuple_SET_ITEM(steps, (Py_ssize_t)k, step);
    }
    if (steps == NULL)
        return NULL;
    return Py_BuildValue("(OONiiNOO)", call->code->code, call->frame == NULL ? Py_None : call->frame,
                         PyLong_FromVoidPtr(call->frame_id), (int)call->parent, (int)call->instruction, steps,
                         call->label == NULL ? Py_None : call->label, call->owner == NULL ? Py_None : call->owner);
}

static PyObject *sites_count_calls(TraceSites *self, PyObject *Py_UNUSED(unused))
{
    return PyLong_FromSsize_t(self->user_call_count);
}

/* depths(): how many calls are around each call, as bytes. */
static PyObject *sites_depths(TraceSites *self, PyObject *Py_UNUSED(unused))
{
    PyObject *depths = PyBytes_FromStringAndSize(NULL, self->user_call_count * (Py_ssize_t)sizeof(int32_t));
    if (depths == NULL)
        return NULL;
    int32_t *numbers = (int32_t *)PyBytes_AS_STRING(depths);
    for (Py_ssize_t k = 0; k < self->user_call_count; k++)
        numbers[k] = self->calls[k]->depth;
    return depths;
}

/* limit_rows(count, find_error): when more rows than this are recorded, raise, once, the error that a function returns;
   with None the recording goes on. */
static PyObject *sites_limit_rows(TraceSites *self, PyObject *args)
{
    Py_ssize_t count;
    PyObject *find_error;
    if (!PyArg_ParseTuple(args, "nO", &count, &find_error))
        return NULL;
    self->row_limit = count;
    Py_XSETREF(self->find_limit_error, Py_NewRef(find_error));
    Py_RETURN_NONE;
}

/* trust_codes(codes): note that these functions, and all that they call, test no identities. */
static PyObject *sites_trust_codes(TraceSites *self, PyObject *codes)
{
    if (!PyTuple_Check(codes)) {
        PyErr_SetString(PyExc_TypeError, "trust_codes takes a tuple of code objects");
        return NULL;
    }
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(codes); k++) {
        CodeNotes *notes = notes_of_code(self, PyTuple_GET_ITEM(codes, k));
        if (notes == NULL)
            return NULL;
        notes->is_searched = 1;
    }
    Py_RETURN_NONE;
}

static PyObject *sites_is_over_limit(TraceSites *self, PyObject *Py_UNUSED(unused))
{
    return PyBool_FromLong(self->is_over_limit);
}

static PyObject *sites_forget_frames(TraceSites *self, PyObject *Py_UNUSED(unused))
{
    self->last_frame = NULL;
    self->last_call = NULL;
    forget_generator(self);
    for (Py_ssize_t k = 0; k < self->user_call_count; k++) {
        self->calls[k]->frame = NULL;
        Py_CLEAR(self->calls[k]->owner);
    }
    if (self->known_calls != NULL) {
        PyDict_Clear(self->known_calls);
        PyDict_Clear(self->python_frames);
        PyDict_Clear(self->labels);
    }
    Py_CLEAR(self->call_frame);
    Py_CLEAR(self->tracker); /* which refers to this object */
    Py_RETURN_NONE;
}

/* export(): the columns as bytes: the site of each row; call, instruction, blocks, code and steps of each site; the
   steps; and lists of the blocks and of the codes. */
static PyObject *sites_export(TraceSites *self, PyObject *Py_UNUSED(unused))
{
    PyObject *columns[5] = {NULL, NULL, NULL, NULL, NULL};
    for (int k = 0; k < 5; k++) {
        const size_t size = k < 4 ? sizeof(int32_t) : sizeof(int64_t);
        columns[k] = PyBytes_FromStringAndSize(NULL, self->site_count * (Py_ssize_t)size);
        if (columns[k] == NULL) {
            while (k-- > 0)
                Py_DECREF(columns[k]);
            return NULL;
        }
    }
    int32_t *numbers[4];
    for (int k = 0; k < 4; k++)
        numbers[k] = (int32_t *)PyBytes_AS_STRING(columns[k]);
    int64_t *steps = (int64_t *)PyBytes_AS_STRING(columns[4]);
    for (Py_ssize_t k = 0; k < self->site_count; k++) {
        const TraceSite *site = &self->sites[k];
        numbers[0][k] = site->call;
        numbers[1][k] = site->instruction;
        numbers[2][k] = site->blocks;
        numbers[3][k] = self->calls[site->call]->code->number;
        steps[k] = site->steps;
    }
    const char *rows = self->rows == NULL ? "" : (const char *)self->rows;
    const char *pool = self->steps == NULL ? "" : (const char *)self->steps;
    return Py_BuildValue("(y#NNNNNy#OO)", rows, self->row_count * (Py_ssize_t)sizeof(int32_t), columns[0], columns[1],
                         columns[2], columns[3], columns[4], pool, self->step_count * (Py_ssize_t)sizeof(int64_t),
                         self->blocks, self->call_codes);
}

/* Note the number of the name of a variable, if it holds a value of the tape. */
static inline void note_variable(NamedRows *named, PyObject *value, Py_ssize_t number)
{
    if (value == NULL || !PyObject_TypeCheck(value, value_class) || SCALAR(value)->tape != named->tape || IS_SCALAR(value))
        return;
    PyObject *index = SLOT(value, value_index);
    const Py_ssize_t row = index == NULL ? -1 : PyLong_AsSsize_t(index) / ROW_SIZE;
    if (row >= 0 && row < named->count)
        named->numbers[row] = (int32_t)number;
}

/* Note the variables of a frame that hold values of the tape; -1 on an error. */
static int note_locals(TraceSites *self, NamedRows *named, PyFrameObject *frame)
{
#if PY_VERSION_HEX >= 0x030D0000
    /* Like `_keeps_variables` in user_code.py, which says why. */
    PyCodeObject *code_of_frame = PyFrame_GetCode(frame);
    const int flags = code_of_frame->co_flags;
    Py_DECREF(code_of_frame);
    if (flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR))
        return 0;
#endif
#if PY_VERSION_HEX < 0x030C0000
    PyCodeObject *code = frame->f_frame->f_code;
    if (code->co_flags & CO_OPTIMIZED) {
        CodeNotes *notes = notes_of_code(self, (PyObject *)code);
        if (notes == NULL)
            return -1;
        if (notes->first_variable < 0) {
            const Py_ssize_t end = PyList_GET_SIZE(named->names);
            notes->first_variable = end;
            if (PyList_SetSlice(named->names, end, end, code->co_localsplusnames) < 0)
                return -1;
        }
        for (int k = 0; k < code->co_nlocalsplus; k++) {
            PyObject *value = frame->f_frame->localsplus[k];
            if (value != NULL && PyCell_Check(value))
                value = PyCell_GET(value);
            note_variable(named, value, notes->first_variable + k);
        }
        return 0;
    }
#endif
    PyObject *locals = PyFrame_GetLocals(frame);
    PyObject *items = locals == NULL ? NULL : PyMapping_Items(locals);
    Py_XDECREF(locals);
    int failed = items == NULL;
    for (Py_ssize_t k = 0; !failed && k < PyList_GET_SIZE(items); k++) {
        PyObject *item = PyList_GET_ITEM(items, k);
        if (PyObject_TypeCheck(PyTuple_GET_ITEM(item, 1), value_class)) {
            note_variable(named, PyTuple_GET_ITEM(item, 1), PyList_GET_SIZE(named->names));
            failed = PyList_Append(named->names, PyTuple_GET_ITEM(item, 0)) < 0;
        }
    }
    Py_XDECREF(items);
    return failed ? -1 : 0;
}

/* How many calls are around one, which is known by its number, or to Python; -1 on an error. */
static long read_depth(TraceSites *self, PyObject *known)
{
    if (PyLong_CheckExact(known))
        return self->calls[PyLong_AsLong(known)]->depth;
    PyObject *depth = PyObject_GetAttrString(known, "depth");
    const long number = depth == NULL ? -1 : PyLong_AsLong(depth);
    Py_XDECREF(depth);
    return number;
}

/* Note the names in all frames, those of inner calls first, so that the names of outer calls remain; -1 on an error. */
static int note_all_locals(TraceSites *self, NamedRows *named)
{
    PyObject *frame, *known;
    Py_ssize_t position = 0;
    long depth, deepest = 0;
    while (PyDict_Next(self->known_calls, &position, &frame, &known)) {
        depth = read_depth(self, known);
        if (depth < 0)
            return -1;
        deepest = depth > deepest ? depth : deepest;
    }
    PyObject *levels = PyList_New(0);
    int failed = levels == NULL;
    for (long k = 0; !failed && k <= deepest; k++) {
        PyObject *level = PyList_New(0);
        failed = level == NULL || PyList_Append(levels, level) < 0;
        Py_XDECREF(level);
    }
    position = 0;
    while (!failed && PyDict_Next(self->known_calls, &position, &frame, &known))
        failed = PyList_Append(PyList_GET_ITEM(levels, read_depth(self, known)), frame) < 0;
    for (long k = deepest; !failed && k >= 0; k--) {
        PyObject *level = PyList_GET_ITEM(levels, k);
        for (Py_ssize_t j = 0; !failed && j < PyList_GET_SIZE(level); j++)
            failed = note_locals(self, named, (PyFrameObject *)PyList_GET_ITEM(level, j)) < 0;
    }
    Py_XDECREF(levels);
    return failed ? -1 : 0;
}

/* collect_names(tape, row count): for each row the number of the variable that held its value, or -1, as bytes; and the
   names of the variables, some of which may be equal. */
static PyObject *sites_collect_names(TraceSites *self, PyObject *args)
{
    NamedRows named;
    if (!PyArg_ParseTuple(args, "On", &named.tape, &named.count))
        return NULL;
    PyObject *numbers = PyBytes_FromStringAndSize(NULL, named.count * (Py_ssize_t)sizeof(int32_t));
    named.names = numbers == NULL ? NULL : PyList_New(0);
    int failed = named.names == NULL;
    if (!failed) {
        named.numbers = (int32_t *)PyBytes_AS_STRING(numbers);
        memset(named.numbers, -1, (size_t)named.count * sizeof(int32_t));
        failed = self->known_calls != NULL && note_all_locals(self, &named) < 0;
    }
    if (failed) {
        Py_XDECREF(named.names);
        Py_XDECREF(numbers);
        return NULL;
    }
    return Py_BuildValue("(NN)", numbers, named.names);
}

static PyMethodDef sites_methods[] = {
    {"note", (PyCFunction)sites_note, METH_O, "Note where the row at an offset is recorded."},
    {"site_at", (PyCFunction)sites_site_at, METH_O, "Return where the row at an offset was recorded."},
    {"read_call", (PyCFunction)sites_read_call, METH_O, "Return what is known about a call."},
    {"count_calls", (PyCFunction)sites_count_calls, METH_NOARGS, "Return the number of calls."},
    {"depths", (PyCFunction)sites_depths, METH_NOARGS, "Return how many calls are around each call, as bytes."},
    {"collect_names", (PyCFunction)sites_collect_names, METH_VARARGS, "Return the variables that held values."},
    {"limit_rows", (PyCFunction)sites_limit_rows, METH_VARARGS, "Raise an error when more rows than this are recorded, if a function returns one."},
    {"is_over_limit", (PyCFunction)sites_is_over_limit, METH_NOARGS, "Return whether that error was raised."},
    {"trust_codes", (PyCFunction)sites_trust_codes, METH_O, "Note that functions test no identities."},
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
