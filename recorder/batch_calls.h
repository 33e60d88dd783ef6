/* Batches of a compiled function whose arguments are vectors and floats in the places where the last batch had them.

`BatchEntry` answers such a batch in one C function: a batch may begin while nothing of Python is in the caches, and
then each line of Python takes a microsecond. What depends on the number of points is a `BatchJob`, which Python
describes; it is used again as long as that number and the threads to use are the same.

Kept true: a job belongs to one call at a time. Threads are woken first of all. From the moment when arguments are read
until all threads are done, no Python code runs but handlers of signals, and all arrays are referred to. */

#include <stdlib.h>
#include <time.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define THREADS_SETTING "WIREGRAD_THREADS" /* settings.THREADS_VARIABLE */
#define SLICE_SECONDS 0.005                /* after so long in native code the main thread handles signals */
#define POLL_MICROSECONDS 200              /* how long the caller sleeps while it waits for a share to end */

/* What says how many threads there are by default. */
typedef struct {
    char setting[16];
    long size; /* of the mask of processors, in bytes; negative if it is not known */
    unsigned char processors[1024];
} Surroundings;

static void read_surroundings(Surroundings *found)
{
    const char *setting = getenv(THREADS_SETTING);
    found->setting[sizeof(found->setting) - 1] = 0;
    strncpy(found->setting, setting == NULL ? "" : setting, sizeof(found->setting) - 1);
    found->size = 0;
#ifdef __linux__
    found->size = syscall(SYS_sched_getaffinity, 0, sizeof(found->processors), found->processors);
#endif
}

static int are_same_surroundings(const Surroundings *one, const Surroundings *two)
{
    return strcmp(one->setting, two->setting) == 0 && one->size == two->size &&
           (one->size <= 0 || memcmp(one->processors, two->processors, (size_t)one->size) == 0);
}

/* The native functions of `helper_threads`. */
typedef void (*ExpectFunction)(int64_t *helper);
typedef void (*PostFunction)(int64_t *helper, void *code, int64_t *job, double *buffer, int64_t shares);
typedef int64_t (*WithdrawFunction)(int64_t *helper, int64_t polls);
typedef void (*BatchFunction)(int64_t *job, double *buffer, int64_t shares);

typedef struct {
    PyObject_HEAD
    Py_ssize_t points, threads; /* threads is 0 for as many as there are by default */
    Surroundings surroundings;
    int64_t *words;                              /* describe the batch to native code */
    Py_ssize_t first_column, column_step, taken; /* places among the words */
    long long shares, first_slice, polls;
    BatchFunction run;
    PyObject *fixed, *targets;              /* tuples: where floats are in a buffer, and which results are computed */
    Py_ssize_t lanes, turns, buffer_length; /* a float is copied to all lanes, in all buffers of a thread */
    Py_ssize_t alignment;                   /* of the results, in bytes */
    Py_ssize_t workers;
    double **buffers;  /* of each worker */
    int64_t **helpers; /* the words of each worker but the first */
    PyObject *pools;   /* tuple of the lists of arrays that are kept for each result, or NULL */
    PyObject *idle, *take_helpers, *retire_excess;
    Py_ssize_t max_idle; /* how many threads are kept without a job */
    ExpectFunction expect;
    PostFunction post;
    WithdrawFunction withdraw;
    Py_ssize_t uses; /* how many batches may still use it */
    PyObject *held;  /* keeps alive what the addresses refer to */
} BatchJob;

static PyTypeObject *job_class, *batch_entry_class;
static PyObject *address_name, *threads_name;

static int job_clear(BatchJob *self)
{
    Py_CLEAR(self->fixed);
    Py_CLEAR(self->targets);
    Py_CLEAR(self->pools);
    Py_CLEAR(self->idle);
    Py_CLEAR(self->take_helpers);
    Py_CLEAR(self->retire_excess);
    Py_CLEAR(self->held);
    return 0;
}

static int job_traverse(BatchJob *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->fixed);
    Py_VISIT(self->targets);
    Py_VISIT(self->pools);
    Py_VISIT(self->idle);
    Py_VISIT(self->take_helpers);
    Py_VISIT(self->retire_excess);
    Py_VISIT(self->held);
    return 0;
}

static void job_dealloc(PyObject *self)
{
    PyMem_Free(((BatchJob *)self)->buffers);
    PyMem_Free(((BatchJob *)self)->helpers);
    free_object(self, (int (*)(PyObject *))job_clear);
}

static int has_only_lists(PyObject *pools, Py_ssize_t count)
{
    if (!PyTuple_Check(pools) || PyTuple_GET_SIZE(pools) != count)
        return 0;
    for (Py_ssize_t k = 0; k < count; k++)
        if (!PyList_CheckExact(PyTuple_GET_ITEM(pools, k)))
            return 0;
    return 1;
}

/* BatchJob(size, words, run, buffers, results, helpers, uses, held), as `batch.RepeatedColumns.describe_job` returns it. */
static int job_init(BatchJob *self, PyObject *args, PyObject *keywords)
{
    Py_ssize_t words, run, expect, post, withdraw, results;
    PyObject *buffers, *fixed, *targets, *pools, *idle, *take_helpers, *retire_excess, *held;
    if (keywords != NULL || self->held != NULL) {
        PyErr_SetString(PyExc_TypeError, "a job is made once, without keywords");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "(nn)(nnnn)(nLL)(O!O!nnn)(nO!nO)(O!OOnnnnL)nO", /* in the same groups: */
                          &self->points, &self->threads,
                          &words, &self->first_column, &self->column_step, &self->taken,
                          &run, &self->shares, &self->first_slice,
                          &PyTuple_Type, &buffers, &PyTuple_Type, &fixed, &self->lanes, &self->turns, &self->buffer_length,
                          &results, &PyTuple_Type, &targets, &self->alignment, &pools,
                          &PyList_Type, &idle, &take_helpers, &retire_excess, &self->max_idle, &expect, &post, &withdraw,
                          &self->polls,
                          &self->uses, &held))
        return -1;
    self->workers = PyTuple_GET_SIZE(buffers);
    if (self->workers < 1 || self->points < 1 || self->alignment < 1 ||
        (pools != Py_None && !has_only_lists(pools, results))) {
        PyErr_SetString(PyExc_ValueError, "a description of a batch is wrong");
        return -1;
    }
    self->buffers = PyMem_Calloc((size_t)self->workers, sizeof(double *));
    self->helpers = PyMem_Calloc((size_t)self->workers, sizeof(int64_t *));
    if (self->buffers == NULL || self->helpers == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t k = 0; k < self->workers; k++)
        self->buffers[k] = PyLong_AsVoidPtr(PyTuple_GET_ITEM(buffers, k));
    if (PyErr_Occurred())
        return -1;
    self->words = (int64_t *)words;
    self->run = (BatchFunction)run;
    self->expect = (ExpectFunction)expect;
    self->post = (PostFunction)post;
    self->withdraw = (WithdrawFunction)withdraw;
    self->fixed = Py_NewRef(fixed);
    self->targets = Py_NewRef(targets);
    self->pools = pools == Py_None ? NULL : Py_NewRef(pools);
    self->idle = Py_NewRef(idle);
    self->take_helpers = Py_NewRef(take_helpers);
    self->retire_excess = Py_NewRef(retire_excess);
    self->held = Py_NewRef(held);
    read_surroundings(&self->surroundings);
    return 0;
}

static PyType_Slot job_slots[] = {
    {Py_tp_doc, "Batches of so many points in so many threads."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, job_init},
    {Py_tp_dealloc, job_dealloc},
    {Py_tp_traverse, job_traverse},
    {Py_tp_clear, job_clear},
    {0, NULL},
};

static PyType_Spec job_spec = {
    .name = "wiregrad._recorder.BatchJob",
    .basicsize = sizeof(BatchJob),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = job_slots,
};

/* ---- Entries ---- */

typedef struct {
    PyObject_HEAD
    PyObject *is_number; /* tuple of bools: whether each argument is a float, not a vector */
    PyObject *prepare;   /* (points, threads) -> BatchJob or None */
    PyObject *allocate;  /* (points) -> tuple of vectors for results */
    PyObject *answer;    /* (tuple of results) -> the answer; or tuples and numbers of results, in the form of the answer */
    PyObject *counters;  /* tuple of vectors of int64, whose first entries count the points */
    PyObject *is_main;   /* () -> whether this is the main thread, which handles signals */
    BatchJob *spare;     /* the last job, unless a call uses it */
} BatchEntry;

/* BatchEntry(is_number, prepare, allocate, answer, counters, is_main) */
static int batch_init(BatchEntry *self, PyObject *args, PyObject *keywords)
{
    PyObject *is_number, *prepare, *allocate, *answer, *counters, *is_main;
    if (keywords != NULL || self->is_number != NULL ||
        !PyArg_ParseTuple(args, "O!OOOO!O", &PyTuple_Type, &is_number, &prepare, &allocate, &answer, &PyTuple_Type,
                          &counters, &is_main)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "an entry is made once, without keywords");
        return -1;
    }
    self->is_number = Py_NewRef(is_number);
    self->prepare = Py_NewRef(prepare);
    self->allocate = Py_NewRef(allocate);
    self->answer = Py_NewRef(answer);
    self->counters = Py_NewRef(counters);
    self->is_main = Py_NewRef(is_main);
    return 0;
}

static int batch_traverse(BatchEntry *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->is_number);
    Py_VISIT(self->prepare);
    Py_VISIT(self->allocate);
    Py_VISIT(self->answer);
    Py_VISIT(self->counters);
    Py_VISIT(self->is_main);
    Py_VISIT(self->spare);
    return 0;
}

static int batch_clear(BatchEntry *self)
{
    Py_CLEAR(self->is_number);
    Py_CLEAR(self->prepare);
    Py_CLEAR(self->allocate);
    Py_CLEAR(self->answer);
    Py_CLEAR(self->counters);
    Py_CLEAR(self->is_main);
    Py_CLEAR(self->spare);
    return 0;
}

static void batch_dealloc(PyObject *self)
{
    free_object(self, (int (*)(PyObject *))batch_clear);
}

/* Whether this is exactly an array, with one axis, of float64, contiguous and aligned. */
static int is_plain_vector(PyObject *thing, int more_flags)
{
    const ArrayFields *array = ARRAY(thing);
    const int flags = CONTIGUOUS_AND_ALIGNED | more_flags;
    return Py_TYPE(thing) == array_class && array->nd == 1 && array->descr == float64_dtype &&
           (array->flags & flags) == flags;
}

static void spread_number(const BatchJob *job, Py_ssize_t entry, double number)
{
    for (Py_ssize_t worker = 0; worker < job->workers; worker++)
        for (Py_ssize_t turn = 0; turn < job->turns; turn++) {
            double *place = job->buffers[worker] + turn * job->buffer_length + entry * job->lanes;
            for (Py_ssize_t lane = 0; lane < job->lanes; lane++)
                place[lane] = number;
        }
}

/* The length of the vectors among arguments, which are written into a job unless it is NULL; -1 if arguments are not of
   these kinds or vectors differ in length. */
static Py_ssize_t read_columns(const BatchEntry *entry, PyObject *const *args, BatchJob *job)
{
    Py_ssize_t points = -1, vectors = 0, numbers = 0;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(entry->is_number); k++) {
        if (PyTuple_GET_ITEM(entry->is_number, k) == Py_True) {
            if (!PyFloat_CheckExact(args[k]))
                return -1;
            if (job != NULL && numbers < PyTuple_GET_SIZE(job->fixed))
                spread_number(job, PyLong_AsSsize_t(PyTuple_GET_ITEM(job->fixed, numbers)), PyFloat_AS_DOUBLE(args[k]));
            numbers++;
            continue;
        }
        if (!is_plain_vector(args[k], 0) || (points >= 0 && ARRAY(args[k])->dimensions[0] != points))
            return -1;
        points = ARRAY(args[k])->dimensions[0];
        if (job != NULL)
            job->words[job->first_column + vectors * job->column_step] = (int64_t)(intptr_t)ARRAY(args[k])->data;
        vectors++;
    }
    return points;
}

/* Write where the results are into a job; 0 if they do not lie in memory as it needs them. */
static int place_results(const BatchEntry *entry, BatchJob *job, PyObject *results)
{
    Py_ssize_t column = PyTuple_GET_SIZE(entry->is_number) - PyTuple_GET_SIZE(job->fixed);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(job->targets); k++) {
        const Py_ssize_t number = PyLong_AsSsize_t(PyTuple_GET_ITEM(job->targets, k));
        if (number < 0 || number >= PyTuple_GET_SIZE(results))
            return 0;
        PyObject *result = PyTuple_GET_ITEM(results, number);
        if (!is_plain_vector(result, WRITEABLE) || ARRAY(result)->dimensions[0] != job->points ||
            (intptr_t)ARRAY(result)->data % job->alignment != 0)
            return 0;
        job->words[job->first_column + (column + k) * job->column_step] = (int64_t)(intptr_t)ARRAY(result)->data;
    }
    return 1;
}

/* An array of a pool that nobody else refers to, unchanged; a new reference, or NULL without an error. */
static PyObject *find_free_vector(PyObject *pool, Py_ssize_t points)
{
    for (Py_ssize_t k = PyList_GET_SIZE(pool) - 1; k >= 0; k--) {
        PyObject *array = PyList_GET_ITEM(pool, k);
        if (Py_REFCNT(array) == 1 && is_plain_vector(array, WRITEABLE | OWNS_MEMORY) &&
            ARRAY(array)->dimensions[0] == points && !has_weak_references(array))
            return Py_NewRef(array);
    }
    return NULL;
}

/* Vectors for the results: kept ones that are free, or else what `allocate` makes. */
static PyObject *take_results(BatchEntry *entry, BatchJob *job)
{
    PyObject *results = job->pools == NULL ? NULL : PyTuple_New(PyTuple_GET_SIZE(job->pools));
    for (Py_ssize_t k = 0; results != NULL && k < PyTuple_GET_SIZE(job->pools); k++) {
        PyObject *array = find_free_vector(PyTuple_GET_ITEM(job->pools, k), job->points);
        if (array != NULL)
            PyTuple_SET_ITEM(results, k, array);
        else
            Py_CLEAR(results);
    }
    if (results != NULL || PyErr_Occurred())
        return results;
    /* The pools may be others afterwards. */
    if (job->pools != NULL)
        job->uses = 1;
    results = PyObject_CallFunction(entry->allocate, "n", job->points);
    if (results != NULL && !PyTuple_CheckExact(results)) {
        PyErr_SetString(PyExc_TypeError, "results of batches are a tuple");
        Py_CLEAR(results);
    }
    return results;
}

/* A list of as many idle threads as a job needs, which are woken; fewer if the system starts no more. NULL on an error. */
static PyObject *wake_helpers(BatchJob *job)
{
    const Py_ssize_t count = job->workers - 1;
    PyObject *helpers = PyList_New(count);
    const Py_ssize_t first = PyList_GET_SIZE(job->idle) - count;
    if (helpers == NULL)
        return NULL;
    if (first < 0)
        Py_SETREF(helpers, PyObject_CallFunction(job->take_helpers, "n", count));
    else {
        for (Py_ssize_t k = 0; k < count; k++)
            PyList_SET_ITEM(helpers, k, Py_NewRef(PyList_GET_ITEM(job->idle, first + k)));
        if (PyList_SetSlice(job->idle, first, first + count, NULL) < 0)
            Py_CLEAR(helpers);
    }
    for (Py_ssize_t k = 0; helpers != NULL && k < PyList_GET_SIZE(helpers); k++) {
        PyObject *address = PyObject_GetAttr(PyList_GET_ITEM(helpers, k), address_name);
        job->helpers[k] = address == NULL ? NULL : PyLong_AsVoidPtr(address);
        Py_XDECREF(address);
        if (job->helpers[k] == NULL)
            Py_CLEAR(helpers);
        else
            job->expect(job->helpers[k]);
    }
    return helpers;
}

static double read_clock(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static PyThread_type_lock sleep_lock; /* always taken: waiting for it is sleeping, on every system */

static inline int64_t count_left(const BatchJob *job)
{
    return job->points - *(volatile int64_t *)&job->words[job->taken];
}

/* Run shares until none is left, or until it is time to look for signals; without the GIL. */
static void run_slices(const BatchJob *job, long long *slice)
{
    const double began = read_clock();
    double before = began;
    while (count_left(job) > 0 && before - began < SLICE_SECONDS) {
        job->run(job->words, job->buffers[0], *slice);
        const double now = read_clock();
        if (now - before < SLICE_SECONDS && *slice < job->shares)
            *slice *= 2;
        before = now;
    }
}

/* Run a job in this thread and in helpers; returns when all of them are done, -1 if a signal handler has raised. */
static int run_job(const BatchEntry *entry, BatchJob *job, Py_ssize_t helpers)
{
    volatile int64_t *taken = &job->words[job->taken];
    long long slice = job->first_slice;
    int status = 0, is_done = 0;
    *taken = 0;
    for (Py_ssize_t k = 0; k < helpers; k++)
        job->post(job->helpers[k], (void *)job->run, job->words, job->buffers[k + 1], job->shares);
    while (!is_done) {
        Py_BEGIN_ALLOW_THREADS
        run_slices(job, &slice);
        is_done = count_left(job) <= 0;
        for (Py_ssize_t k = 0; is_done && k < helpers; k++)
            while (!job->withdraw(job->helpers[k], job->polls))
                PyThread_acquire_lock_timed(sleep_lock, POLL_MICROSECONDS, 0);
        Py_END_ALLOW_THREADS
        if (is_done)
            break;
        PyObject *is_main = PyObject_CallNoArgs(entry->is_main);
        if (is_main == Py_False)
            slice = job->shares;
        Py_XDECREF(is_main);
        if (is_main == NULL || PyErr_CheckSignals() < 0) {
            status = -1;
            *taken = job->points;
        }
    }
    return status;
}

/* Keep threads that have finished for later batches; -1 on an error. An error that was raised before stays. */
static int return_helpers(const BatchJob *job, PyObject *helpers)
{
    const Py_ssize_t idle = PyList_GET_SIZE(job->idle);
    if (PyList_SetSlice(job->idle, idle, idle, helpers) < 0)
        return -1;
    if (PyList_GET_SIZE(job->idle) <= job->max_idle || PyErr_Occurred())
        return 0;
    PyObject *done = PyObject_CallNoArgs(job->retire_excess);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* The results of a job for arguments; NULL without an error if Python has to find them. */
static PyObject *compute_results(BatchEntry *entry, BatchJob *job, PyObject *const *args)
{
    PyObject *helpers = job->workers > 1 ? wake_helpers(job) : NULL;
    if (helpers == NULL && PyErr_Occurred())
        return NULL;
    PyObject *results = take_results(entry, job);
    /* Making an object may run any code, also such that changes an array. */
    if (results != NULL && (!place_results(entry, job, results) || read_columns(entry, args, job) != job->points))
        Py_CLEAR(results);
    const Py_ssize_t count = helpers == NULL ? 0 : PyList_GET_SIZE(helpers);
    if (results != NULL && run_job(entry, job, count < job->workers ? count : job->workers - 1) < 0)
        Py_CLEAR(results);
    if (helpers != NULL && return_helpers(job, helpers) < 0)
        Py_CLEAR(results);
    Py_XDECREF(helpers);
    return results;
}

/* The job for so many points: the last one, unless a call uses it or it is for another number; else a new one. */
static BatchJob *take_job(BatchEntry *entry, Py_ssize_t points, Py_ssize_t threads)
{
    BatchJob *job = entry->spare;
    entry->spare = NULL;
    if (job != NULL) {
        Surroundings now;
        read_surroundings(&now);
        if (job->points == points && job->threads == threads && are_same_surroundings(&now, &job->surroundings))
            return job;
        Py_DECREF(job);
    }
    job = (BatchJob *)PyObject_CallFunction(entry->prepare, "nn", points, threads);
    if (job == NULL || Py_TYPE(job) == job_class)
        return job;
    Py_DECREF(job);
    return NULL;
}

static void count_points(const BatchEntry *entry, Py_ssize_t points)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(entry->counters); k++) {
        PyObject *counter = PyTuple_GET_ITEM(entry->counters, k);
        if (Py_TYPE(counter) == array_class && ARRAY(counter)->nd == 1 && ARRAY(counter)->dimensions[0] == 1)
            *(int64_t *)ARRAY(counter)->data += points;
    }
}

/* The results in the form of an answer. */
static PyObject *build_answer(PyObject *form, PyObject *results)
{
    if (PyLong_CheckExact(form)) {
        const Py_ssize_t number = PyLong_AsSsize_t(form);
        return number < 0 ? NULL : PySequence_GetItem(results, number);
    }
    if (!PyTuple_CheckExact(form))
        return PyObject_CallOneArg(form, results);
    PyObject *answer = PyTuple_New(PyTuple_GET_SIZE(form));
    for (Py_ssize_t k = 0; answer != NULL && k < PyTuple_GET_SIZE(form); k++) {
        PyObject *part = build_answer(PyTuple_GET_ITEM(form, k), results);
        if (part == NULL)
            Py_CLEAR(answer);
        else
            PyTuple_SET_ITEM(answer, k, part);
    }
    return answer;
}

/* The answer to a batch; NULL without an error if Python has to find it. `threads` is None or the number to use. */
static PyObject *answer_batch(BatchEntry *entry, PyObject *const *args, Py_ssize_t count, PyObject *threads)
{
    if (count != PyTuple_GET_SIZE(entry->is_number) || !(threads == Py_None || PyLong_CheckExact(threads)))
        return NULL;
    const Py_ssize_t limit = threads == Py_None ? 0 : PyLong_AsSsize_t(threads);
    const Py_ssize_t points = read_columns(entry, args, NULL);
    if (limit < (threads != Py_None) || points < 2) { /* one row is answered by an ordinary call */
        PyErr_Clear();
        return NULL;
    }
    Py_INCREF(entry);
    BatchJob *job = take_job(entry, points, limit);
    PyObject *results = job == NULL ? NULL : compute_results(entry, job, args);
    if (results != NULL && --job->uses > 0 && entry->spare == NULL)
        entry->spare = (BatchJob *)Py_NewRef(job);
    Py_XDECREF(job);
    if (results != NULL)
        count_points(entry, points);
    PyObject *answer = results == NULL ? NULL : build_answer(entry->answer, results);
    Py_XDECREF(results);
    Py_DECREF(entry);
    return answer;
}

/* answer(args, threads) */
static PyObject *batch_answer(BatchEntry *self, PyObject *given)
{
    PyObject *args, *threads;
    if (!PyArg_ParseTuple(given, "O!O", &PyTuple_Type, &args, &threads))
        return NULL;
    PyObject *answer = answer_batch(self, ((PyTupleObject *)args)->ob_item, PyTuple_GET_SIZE(args), threads);
    return answer == NULL && !PyErr_Occurred() ? Py_NewRef(Py_None) : answer;
}

static PyMethodDef batch_methods[] = {
    {"answer", (PyCFunction)batch_answer, METH_VARARGS, "Return what a batch returns; None if Python has to find it."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot batch_slots[] = {
    {Py_tp_doc, "Batches whose arguments are vectors and floats in certain places."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, batch_init},
    {Py_tp_dealloc, batch_dealloc},
    {Py_tp_traverse, batch_traverse},
    {Py_tp_clear, batch_clear},
    {Py_tp_methods, batch_methods},
    {0, NULL},
};

static PyType_Spec batch_entry_spec = {
    .name = "wiregrad._recorder.BatchEntry",
    .basicsize = sizeof(BatchEntry),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = batch_slots,
};
