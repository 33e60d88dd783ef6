/* The memory of scalars, and how Python's collector gets to know them. Included by recorder.c.

Most scalars live no longer than a recording, and there are many of them: they lie side by side in blocks. A block that
has become empty is kept for the next recording, up to MAX_SPARE_BLOCKS and until the next full collection; then it is
given back.

A collector that walks over every number of a long recording again and again takes longer than recording it. So the
scalars that ops make are hidden from it, and shown to it at the beginning of a full collection, which is where a cycle
through one of them (its tape has a hook that refers to it) is found. */

#ifndef HIDES_SCALARS /* tests set it to 0 */
#if PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED)
#define HIDES_SCALARS 1
#else
#define HIDES_SCALARS 0 /* no collection is full there, unless it is asked for */
#endif
#endif

#if HIDES_SCALARS

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define HIDE_FREED(scalar) ASAN_POISON_MEMORY_REGION(&(scalar)->notes, sizeof(Scalar) - offsetof(Scalar, notes))
#define SHOW_FREED(scalar) ASAN_UNPOISON_MEMORY_REGION(&(scalar)->notes, sizeof(Scalar) - offsetof(Scalar, notes))
#else
#define HIDE_FREED(scalar)
#define SHOW_FREED(scalar)
#endif

#define FULL_COLLECTION 2
#define BLOCK_BYTES ((size_t)1 << 18)
#define MAX_SPARE_BLOCKS 64

/* What Python keeps before every object that the collector may know; `next` is 0 while it does not know it. */
typedef struct {
    uintptr_t next, before;
} CollectorHead;

typedef struct Block {
    struct Block *before, *after; /* in one of the lists below */
    Scalar *freed;                /* linked by `offset` */
    char *fresh, *used, *end;     /* places from `fresh` on are free; places up to `used` were in use before */
    Py_ssize_t live;
    int is_full;
} Block;

static Block open_blocks = {&open_blocks, &open_blocks};
static Block full_blocks = {&full_blocks, &full_blocks};
static Block spare_blocks = {&spare_blocks, &spare_blocks};
static int spare_count;
static Block *current_block = &full_blocks; /* scalars are taken from here; has no room at first */
static size_t place_bytes, head_bytes;      /* the size of a scalar with its heads, and of the heads */

#define BLOCK_OF(scalar) ((Block *)((uintptr_t)(scalar) & ~(uintptr_t)(BLOCK_BYTES - 1)))
#define HEAD_OF(scalar) ((CollectorHead *)(scalar)-1)
#define FIRST_PLACE(block) ((char *)(block) + (sizeof(Block) + 63) / 64 * 64)

static void unlink_block(Block *block)
{
    block->before->after = block->after;
    block->after->before = block->before;
}

static void move_block(Block *block, Block *list)
{
    unlink_block(block);
    block->before = list;
    block->after = list->after;
    list->after->before = block;
    list->after = block;
}

static Block *allocate_block(void)
{
#ifdef _WIN32
    Block *block = _aligned_malloc(BLOCK_BYTES, BLOCK_BYTES);
    if (block == NULL)
        return NULL;
#else
    void *memory = NULL;
    if (posix_memalign(&memory, BLOCK_BYTES, BLOCK_BYTES) != 0)
        return NULL;
    Block *block = memory;
#endif
    PyTraceMalloc_Track(0, (uintptr_t)block, BLOCK_BYTES);
    block->before = block->after = block;
    block->freed = NULL;
    block->fresh = block->used = FIRST_PLACE(block);
    block->end = block->fresh + ((char *)block + BLOCK_BYTES - block->fresh) / (Py_ssize_t)place_bytes * (Py_ssize_t)place_bytes;
    block->live = 0;
    block->is_full = 0;
    return block;
}

static void free_block(Block *block)
{
    unlink_block(block);
    /* Every place that was in use has a reference to its class. */
    for (char *place = FIRST_PLACE(block); place < block->used; place += place_bytes) {
        SHOW_FREED((Scalar *)(place + head_bytes));
        Py_DECREF(Py_TYPE(place + head_bytes));
    }
    PyTraceMalloc_Untrack(0, (uintptr_t)block);
#ifdef _WIN32
    _aligned_free(block);
#else
    free(block);
#endif
}

/* Make a block with room the current one; 0 if there is no memory. */
static int open_block(void)
{
    if (current_block != &full_blocks) {
        current_block->is_full = 1;
        move_block(current_block, &full_blocks);
        current_block = &full_blocks;
    }
    Block *block = open_blocks.before;
    if (block == &open_blocks) {
        if (spare_count > 0) {
            block = spare_blocks.after;
            spare_count--;
        }
        else
            block = allocate_block();
        if (block == NULL)
            return 0;
        move_block(block, &open_blocks);
    }
    current_block = block;
    return 1;
}

/* A block that was full has room, or is empty. */
static void settle_block(Block *block)
{
    if (block->is_full) {
        block->is_full = 0;
        move_block(block, &open_blocks);
    }
    if (block->live > 0)
        return;
    /* From here on places are taken in the order in which they lie in memory. */
    block->freed = NULL;
    block->fresh = FIRST_PLACE(block);
    if (block == current_block)
        return;
    if (spare_count >= MAX_SPARE_BLOCKS) {
        free_block(block);
        return;
    }
    move_block(block, &spare_blocks);
    spare_count++;
}

/* Find a place for a scalar where the current block has none that was in use before; 0 if there is no memory. */
static int prepare_place(PyTypeObject *kind)
{
    if (current_block->fresh == current_block->end && !open_block())
        return 0;
    Block *block = current_block;
    if (block->freed == NULL && block->fresh == block->used) {
        memset(block->used, 0, place_bytes);
        Py_SET_TYPE((PyObject *)(block->used + head_bytes), (PyTypeObject *)Py_NewRef(kind));
        block->used += place_bytes;
    }
    return 1;
}

static void change_class(Scalar *self, PyTypeObject *kind)
{
    Py_DECREF(Py_TYPE(self));
    Py_SET_TYPE((PyObject *)self, (PyTypeObject *)Py_NewRef(kind));
}

/* A scalar with nothing in its slots, hidden from the collector; NULL without an error if there is no memory. */
INLINED Scalar *take_scalar(PyTypeObject *kind)
{
    if (current_block->freed == NULL && current_block->fresh == current_block->used && !prepare_place(kind))
        return NULL;
    Block *block = current_block;
    Scalar *self = block->freed;
    if (self != NULL)
        block->freed = (Scalar *)self->offset;
    else {
        self = (Scalar *)(block->fresh + head_bytes);
        block->fresh += place_bytes;
    }
    block->live++;
    SHOW_FREED(self);
    if (Py_TYPE(self) != kind)
        change_class(self, kind);
#ifdef Py_REF_DEBUG
    _Py_NewReference((PyObject *)self);
#else
    Py_SET_REFCNT((PyObject *)self, 1);
#endif
    return self;
}

/* Take back the memory of a scalar whose slots are empty, and which the collector does not know. */
static inline void give_scalar(Scalar *self)
{
    Block *block = BLOCK_OF(self);
    self->offset = (Py_ssize_t)block->freed;
    block->freed = self;
    HIDE_FREED(self);
    block->live--;
    if (block->is_full || block->live == 0)
        settle_block(block);
}

static void show_block(Block *block)
{
    for (char *place = FIRST_PLACE(block); place < block->fresh; place += place_bytes) {
        PyObject *self = (PyObject *)(place + head_bytes);
        if (Py_REFCNT(self) > 0 && HEAD_OF(self)->next == 0)
            PyObject_GC_Track(self);
    }
}

static PyObject *watch_collector(PyObject *Py_UNUSED(module), PyObject *args)
{
    const char *phase;
    PyObject *info;
    if (!PyArg_ParseTuple(args, "sO!", &phase, &PyDict_Type, &info))
        return NULL;
    PyObject *generation = PyDict_GetItemString(info, "generation");
    if (generation == NULL || PyLong_AsLong(generation) != FULL_COLLECTION)
        Py_RETURN_NONE;
    if (strcmp(phase, "start") == 0) {
        for (Block *block = open_blocks.after; block != &open_blocks; block = block->after)
            show_block(block);
        for (Block *block = full_blocks.after; block != &full_blocks; block = block->after)
            show_block(block);
    }
    else {
        while (spare_count > 0) {
            free_block(spare_blocks.after);
            spare_count--;
        }
    }
    Py_RETURN_NONE;
}

/* Ask the collector to say when it begins. */
static int begin_watching(PyObject *module)
{
    PyObject *collector = PyImport_ImportModule("gc");
    PyObject *callbacks = collector == NULL ? NULL : PyObject_GetAttrString(collector, "callbacks");
    PyObject *watcher = callbacks == NULL ? NULL : PyObject_GetAttrString(module, "watch_collector");
    const int failed = watcher == NULL || !PyList_Check(callbacks) || PyList_Append(callbacks, watcher) < 0;
    Py_XDECREF(watcher);
    Py_XDECREF(callbacks);
    Py_XDECREF(collector);
    return failed ? -1 : 0;
}

#endif
