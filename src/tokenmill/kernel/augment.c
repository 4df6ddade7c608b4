/* Augmentations of rows: the loops over tokens of tokenmill/augment, which has each in NumPy as well.

   Rows are (rows, length) int64 in one buffer, length = block_size + 1. What is random follows from the
   sample number of a row and two keys, as augment/row_random.py says. A chance is a whole number of
   2^-32, so that 2^32 means always. */

#include "loops.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define GOLDEN 0x9E3779B97F4A7C15u /* the step of splitmix64 */
#define DRAWS 8                    /* numbers that a column may ask for */
#define DRAW_OF_CHOICE 7           /* of these, the one that choices use */
#define BLOCK 64                   /* columns that are chosen together */
#define NUM_SENTINELS 3
#define IGNORED (-100)

typedef struct {
    Py_buffer tokens;  /* (rows, length) int64 */
    Py_buffer samples; /* (rows,) int64 */
    Py_buffer filled;  /* (rows,) int64: tokens before the padding */
    Py_buffer special; /* a byte for each id: 1 if it is special; ids above are not */
    unsigned long long key[2];
    Py_ssize_t num_rows, length;
} Rows;

static void release_rows(Rows *rows) {
    PyBuffer_Release(&rows->tokens);
    PyBuffer_Release(&rows->samples);
    PyBuffer_Release(&rows->filled);
    PyBuffer_Release(&rows->special);
}

/* Find the shape of the rows; refuse buffers that do not have it. */
static int check_rows(Rows *rows) {
    Py_ssize_t size = rows->tokens.len / (Py_ssize_t)sizeof(int64_t);
    rows->num_rows = rows->samples.len / (Py_ssize_t)sizeof(int64_t);
    rows->length = rows->num_rows ? size / rows->num_rows : 0;
    int sound = rows->filled.len == rows->samples.len && rows->special.len > 0 &&
                rows->tokens.len == rows->num_rows * rows->length * (Py_ssize_t)sizeof(int64_t) &&
                rows->samples.len == rows->num_rows * (Py_ssize_t)sizeof(int64_t) &&
                (rows->length > 0 || rows->num_rows == 0);
    const int64_t *filled = rows->filled.buf;
    for (Py_ssize_t row = 0; sound && row < rows->num_rows; row++)
        sound = filled[row] >= 0 && filled[row] <= rows->length;
    return sound;
}

static PyObject *refuse(void) {
    PyErr_SetString(PyExc_ValueError, "the arrays are not those of one batch");
    return NULL;
}

/* Where the numbers of a row begin. */
static inline uint64_t begin_of(const Rows *rows, Py_ssize_t row) {
    uint64_t sample = (uint64_t)((const int64_t *)rows->samples.buf)[row];
    return mix64(mix64(sample + rows->key[0]) ^ rows->key[1]);
}

static inline uint64_t bits_of(uint64_t begin, uint64_t column, uint64_t draw) {
    return mix64(begin + (column * DRAWS + draw + 1) * GOLDEN);
}

/* A number below `limit` from the lower 32 bits. */
static inline uint64_t below(uint64_t bits, uint64_t limit) { return (bits & 0xFFFFFFFFu) * limit >> 32; }

/* Ids above the table are like its last one, ids below 0 like its first one. */
static inline int is_special(const Rows *rows, int64_t id) {
    int64_t last = rows->special.len - 1;
    return ((const uint8_t *)rows->special.buf)[id > last ? last : id < 0 ? 0 : id];
}

/* A bit for each of 64 random numbers of 32 bits that is below the chance. */
#if defined(__SSE2__)
static inline uint64_t which_are_below(const uint64_t numbers[BLOCK / 2], uint32_t chance) {
    const __m128i sign = _mm_set1_epi32(INT32_MIN); /* SSE2 only compares signed numbers */
    const __m128i limit = _mm_xor_si128(_mm_set1_epi32((int32_t)chance), sign);
    uint64_t mask = 0;
    for (int part = 0; part < 4; part++) {
        __m128i is_below[4];
        for (int four = 0; four < 4; four++) {
            __m128i halves = _mm_loadu_si128((const __m128i *)(numbers + 8 * part + 2 * four));
            is_below[four] = _mm_cmplt_epi32(_mm_xor_si128(halves, sign), limit);
        }
        __m128i low = _mm_packs_epi32(is_below[0], is_below[1]);
        __m128i high = _mm_packs_epi32(is_below[2], is_below[3]);
        mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_packs_epi16(low, high)) << 16 * part;
    }
    return mask;
}
#else
static inline uint64_t which_are_below(const uint64_t numbers[BLOCK / 2], uint32_t chance) {
    uint64_t mask = 0;
    for (int pair = 0; pair < BLOCK / 2; pair++) {
        mask |= (uint64_t)((uint32_t)numbers[pair] < chance) << 2 * pair;
        mask |= (uint64_t)(numbers[pair] >> 32 < chance) << (2 * pair + 1);
    }
    return mask;
}
#endif

/* The columns below `stop` that are chosen with this chance, ascending, and whose tokens are not special;
   returns how many there are. */
static Py_ssize_t choose(const Rows *rows, const int64_t *tokens, uint64_t begin, Py_ssize_t stop,
                         uint64_t chance, Py_ssize_t *columns) {
    uint64_t numbers[BLOCK / 2];
    Py_ssize_t count = 0;
    for (Py_ssize_t first = 0; first < stop; first += BLOCK) {
        uint64_t chosen = UINT64_MAX;
        if (chance < UINT64_C(1) << 32) {
            for (int pair = 0; pair < BLOCK / 2; pair++)
                numbers[pair] = bits_of(begin, (uint64_t)(first / 2 + pair), DRAW_OF_CHOICE);
            chosen = which_are_below(numbers, (uint32_t)chance);
        }
        if (stop - first < BLOCK) chosen &= (UINT64_C(1) << (stop - first)) - 1;
        for (; chosen; chosen &= chosen - 1) {
            Py_ssize_t column = first + __builtin_ctzll(chosen);
            columns[count] = column;
            count += !is_special(rows, tokens[column]);
        }
    }
    return count;
}

typedef struct {
    const int64_t *before; /* for each special id, how many ids below it are not special; ascending */
    Py_ssize_t num_special;
    uint64_t num_ordinary; /* ids that are not special */
} Vocabulary;

/* An id that is not special, from 64 bits. */
static inline int64_t draw_id(const Vocabulary *ids, uint64_t bits) {
    int64_t number = (int64_t)below(bits, ids->num_ordinary);
    if (!ids->num_special || number < ids->before[0]) return number; /* the usual case */
    Py_ssize_t low = 0, high = ids->num_special;
    while (low < high) { /* how many special ids come before it */
        Py_ssize_t middle = low + (high - low) / 2;
        if (ids->before[middle] <= number)
            low = middle + 1;
        else
            high = middle;
    }
    return number + low;
}

typedef struct {
    unsigned long long choice; /* that an input is chosen */
    unsigned long long keep;   /* that a chosen one stays as it is */
    unsigned long long random; /* that it stays, or becomes a random id */
} Chances;

static void change_row(const Rows *rows, Py_ssize_t row, const Chances *chance, const Vocabulary *ids,
                       int64_t mask_id, const int64_t *clean, int64_t *labels, Py_ssize_t *columns) {
    int64_t *tokens = (int64_t *)rows->tokens.buf + row * rows->length;
    int64_t filled = ((const int64_t *)rows->filled.buf)[row];
    Py_ssize_t stop = filled < rows->length ? filled : rows->length - 1; /* the last is a target only */
    uint64_t begin = begin_of(rows, row);
    Py_ssize_t count = choose(rows, tokens, begin, stop, chance->choice, columns);
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t column = columns[i];
        uint64_t bits = bits_of(begin, (uint64_t)column, 0);
        if (labels) labels[row * (rows->length - 1) + column] = clean[row * rows->length + column];
        /* An id is drawn for each: a branch that depends on chance takes longer. */
        int64_t drawn = draw_id(ids, bits), changed = bits >> 32 < chance->random ? drawn : mask_id;
        tokens[column] = bits >> 32 < chance->keep ? tokens[column] : changed;
    }
}

/* change_inputs(tokens, samples, filled, special, key, key, choice, keep, random, mask_id, before,
   num_ordinary, clean, labels): inputs that are chosen become the mask or a random id. Where `labels`
   (rows, length - 1) and `clean`, the rows as they were, are given, the label of each is its own token. */
PyObject *change_inputs(PyObject *self, PyObject *arguments) {
    Rows rows;
    Chances chance;
    Py_buffer before, clean, labels;
    long long mask_id;
    unsigned long long num_ordinary;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "w*y*y*y*KKKKKLy*Kz*z*", &rows.tokens, &rows.samples, &rows.filled,
                          &rows.special, &rows.key[0], &rows.key[1], &chance.choice, &chance.keep,
                          &chance.random, &mask_id, &before, &num_ordinary, &clean, &labels))
        return NULL;
    Py_ssize_t words = (Py_ssize_t)sizeof(int64_t);
    int sound = check_rows(&rows) && num_ordinary < UINT64_C(1) << 32 && !(labels.buf && labels.readonly) &&
                (labels.buf ? clean.len == rows.tokens.len &&
                                  labels.len == rows.tokens.len - rows.num_rows * words
                            : !clean.buf);
    Py_ssize_t *columns = sound ? PyMem_RawMalloc((size_t)(rows.length + BLOCK) * sizeof *columns) : NULL;
    if (columns) {
        Vocabulary ids = {before.buf, before.len / words, num_ordinary};
        Py_BEGIN_ALLOW_THREADS;
        for (Py_ssize_t row = 0; row < rows.num_rows; row++)
            change_row(&rows, row, &chance, &ids, mask_id, clean.buf, labels.buf, columns);
        Py_END_ALLOW_THREADS;
    }
    PyMem_RawFree(columns);
    release_rows(&rows);
    PyBuffer_Release(&before);
    PyBuffer_Release(&clean);
    PyBuffer_Release(&labels);
    if (!sound) return refuse();
    if (!columns) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* Drop some tokens of a row: those after them move up, and padding fills the row. Returns how many
   tokens are left. `stays` has room for a byte of each token: with it no branch depends on chance. */
static Py_ssize_t drop_columns(int64_t *tokens, Py_ssize_t length, Py_ssize_t filled,
                               const Py_ssize_t *dropped, Py_ssize_t count, int64_t padding,
                               uint8_t *stays) {
    Py_ssize_t left = 0;
    memset(stays, 1, (size_t)filled);
    for (Py_ssize_t i = 0; i < count; i++) stays[dropped[i]] = 0;
    for (Py_ssize_t column = 0; column < filled; column++) {
        tokens[left] = tokens[column];
        left += stays[column];
    }
    for (Py_ssize_t column = left; column < length; column++) tokens[column] = padding;
    return left;
}

/* The documents of a row after some columns are dropped: `counted` says of each target whether it
   continues the document of its input. Writes where documents, and then padding, begin in the flat rows;
   returns how many. */
static Py_ssize_t drop_documents(uint8_t *counted, Py_ssize_t length, Py_ssize_t filled, Py_ssize_t left,
                                 const Py_ssize_t *dropped, Py_ssize_t row_begin, int64_t *begins) {
    Py_ssize_t count = 0, gone = 0; /* documents so far, and columns dropped before the next one */
    begins[count++] = row_begin;
    for (Py_ssize_t target = 0; target < filled - 1; target++) {
        const uint8_t *found = memchr(counted + target, 0, (size_t)(filled - 1 - target));
        if (!found) break;
        target = found - counted;
        while (gone < filled - left && dropped[gone] <= target) gone++;
        /* A document of which nothing is left begins where the next one does. */
        int64_t begin = row_begin + target + 1 - gone;
        if (begin > begins[count - 1] && begin < row_begin + left) begins[count++] = begin;
    }
    Py_ssize_t num_counted = left > 0 ? left - 1 : 0;
    memset(counted, 1, (size_t)num_counted);
    memset(counted + num_counted, 0, (size_t)(length - 1 - num_counted));
    for (Py_ssize_t i = 1; i < count; i++) counted[begins[i] - row_begin - 1] = 0;
    if (left > 0 && left < length) begins[count++] = row_begin + left;
    return count;
}

/* drop_tokens(tokens, samples, filled, special, key, key, chance, padding, counted, begins): tokens that
   are chosen leave their rows. `filled`, `counted` (rows, length - 1) and `begins` (rows * length) are
   written; returns the number of `begins`, where documents and padding begin in the flat rows. */
PyObject *drop_tokens(PyObject *self, PyObject *arguments) {
    Rows rows;
    Py_buffer counted, begins;
    unsigned long long chance;
    long long padding;
    Py_ssize_t num_begins = 0;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "w*y*w*y*KKKLw*w*", &rows.tokens, &rows.samples, &rows.filled,
                          &rows.special, &rows.key[0], &rows.key[1], &chance, &padding, &counted, &begins))
        return NULL;
    int sound = check_rows(&rows) && counted.len == rows.num_rows * (rows.length - 1) &&
                begins.len == rows.tokens.len;
    size_t room = (size_t)rows.length + BLOCK;
    Py_ssize_t *dropped = sound ? PyMem_RawMalloc(room * (sizeof *dropped + 1)) : NULL;
    if (dropped) {
        uint8_t *stays = (uint8_t *)(dropped + room);
        int64_t *filled = rows.filled.buf;
        Py_BEGIN_ALLOW_THREADS;
        for (Py_ssize_t row = 0; row < rows.num_rows; row++) {
            Py_ssize_t begin = row * rows.length, before = filled[row];
            int64_t *tokens = (int64_t *)rows.tokens.buf + begin;
            Py_ssize_t count = choose(&rows, tokens, begin_of(&rows, row), before, chance, dropped);
            filled[row] = drop_columns(tokens, rows.length, before, dropped, count, padding, stays);
            num_begins += drop_documents((uint8_t *)counted.buf + row * (rows.length - 1), rows.length,
                                         before, filled[row], dropped, begin,
                                         (int64_t *)begins.buf + num_begins);
        }
        Py_END_ALLOW_THREADS;
    }
    PyMem_RawFree(dropped);
    release_rows(&rows);
    PyBuffer_Release(&counted);
    PyBuffer_Release(&begins);
    if (!sound) return refuse();
    return dropped ? PyLong_FromSsize_t(num_begins) : PyErr_NoMemory();
}

/* Whether a text has no special id. Most texts have no id that is as large as the first special one,
   and that is seen without a look at the table. */
static int has_no_special(const Rows *rows, const int64_t *text, Py_ssize_t size, int64_t lowest) {
    uint64_t all_below = UINT64_MAX; /* its sign: that of id - lowest, while all are negative */
    for (Py_ssize_t i = 0; i < size; i++) all_below &= (uint64_t)text[i] - (uint64_t)lowest;
    if (lowest > 0 && all_below >> 63) return 1;
    for (Py_ssize_t i = 0; i < size; i++)
        if (is_special(rows, text[i])) return 0;
    return 1;
}

/* A text of `size` tokens as prefix, suffix and middle; its last three give way to the sentinels. */
static void rearrange(int64_t *text, Py_ssize_t size, Py_ssize_t first_cut, Py_ssize_t second_cut,
                      int is_spm, const int64_t sentinels[NUM_SENTINELS], int64_t *copy) {
    Py_ssize_t kept = size - NUM_SENTINELS, prefix = is_spm ? 0 : first_cut;
    Py_ssize_t suffix = kept - second_cut, middle = second_cut - prefix;
    memcpy(copy, text, (size_t)kept * sizeof *copy);
    *text++ = sentinels[0];
    memcpy(text, copy, (size_t)prefix * sizeof *copy);
    text += prefix;
    *text++ = sentinels[1];
    memcpy(text, copy + second_cut, (size_t)suffix * sizeof *copy);
    text += suffix;
    *text++ = sentinels[2];
    memcpy(text, copy + prefix, (size_t)middle * sizeof *copy);
}

/* One document of a row, columns start .. stop - 1; see augment/fill_in_the_middle.py. */
static void fill_document(const Rows *rows, int64_t *tokens, Py_ssize_t start, Py_ssize_t stop,
                          uint64_t begin, const unsigned long long chances[2], int64_t lowest,
                          const int64_t sentinels[NUM_SENTINELS], int64_t *copy) {
    for (int i = 0; i < 2; i++) start += start < stop && is_special(rows, tokens[start]);
    stop -= start < stop && is_special(rows, tokens[stop - 1]);
    Py_ssize_t size = stop - start;
    if (size <= NUM_SENTINELS || bits_of(begin, (uint64_t)start, 0) >> 32 >= chances[0] ||
        !has_no_special(rows, tokens + start, size, lowest))
        return;
    uint64_t limit = (uint64_t)(size - NUM_SENTINELS + 1);
    Py_ssize_t one = (Py_ssize_t)below(bits_of(begin, (uint64_t)start, 2), limit);
    Py_ssize_t other = (Py_ssize_t)below(bits_of(begin, (uint64_t)start, 3), limit);
    int is_spm = bits_of(begin, (uint64_t)start, 1) >> 32 < chances[1];
    rearrange(tokens + start, size, one < other ? one : other, one < other ? other : one, is_spm,
              sentinels, copy);
}

/* fill_in_the_middle(tokens, samples, filled, special, key, key, rate, spm_rate, prefix, suffix, middle,
   counted): documents that are chosen become prefix, suffix and middle. */
PyObject *fill_in_the_middle(PyObject *self, PyObject *arguments) {
    Rows rows;
    Py_buffer counted;
    unsigned long long chances[2];
    long long given[NUM_SENTINELS];
    (void)self;
    if (!PyArg_ParseTuple(arguments, "w*y*y*y*KKKKLLLy*", &rows.tokens, &rows.samples, &rows.filled,
                          &rows.special, &rows.key[0], &rows.key[1], &chances[0], &chances[1], &given[0],
                          &given[1], &given[2], &counted))
        return NULL;
    int sound = check_rows(&rows) && rows.length < UINT32_MAX &&
                counted.len == rows.num_rows * (rows.length - 1);
    int64_t *copy = sound ? PyMem_RawMalloc((size_t)(rows.length + 1) * sizeof *copy) : NULL;
    if (copy) {
        const int64_t sentinels[NUM_SENTINELS] = {given[0], given[1], given[2]};
        const uint8_t *special = rows.special.buf, *first = memchr(special, 1, (size_t)rows.special.len);
        int64_t lowest = first ? first - special : rows.special.len;
        Py_BEGIN_ALLOW_THREADS;
        for (Py_ssize_t row = 0; row < rows.num_rows; row++) {
            const uint8_t *continues = (const uint8_t *)counted.buf + row * (rows.length - 1);
            int64_t *tokens = (int64_t *)rows.tokens.buf + row * rows.length;
            uint64_t begin = begin_of(&rows, row);
            Py_ssize_t filled = ((const int64_t *)rows.filled.buf)[row], start = 0;
            while (start < filled) {
                const uint8_t *end = memchr(continues + start, 0, (size_t)(filled - 1 - start));
                Py_ssize_t stop = end ? end - continues + 1 : filled;
                fill_document(&rows, tokens, start, stop, begin, chances, lowest, sentinels, copy);
                start = stop;
            }
        }
        Py_END_ALLOW_THREADS;
    }
    PyMem_RawFree(copy);
    release_rows(&rows);
    PyBuffer_Release(&counted);
    if (!sound) return refuse();
    if (!copy) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* next_tokens(labels, tokens, counted): the label of each input is the next token where it counts, and
   IGNORED elsewhere; labels and `counted` are (rows, length - 1). */
PyObject *next_tokens(PyObject *self, PyObject *arguments) {
    Py_buffer labels, tokens, counted;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "w*y*y*", &labels, &tokens, &counted)) return NULL;
    Py_ssize_t size = counted.len, num_rows = tokens.len / (Py_ssize_t)sizeof(int64_t) - size;
    int sound = num_rows >= 0 && labels.len == size * (Py_ssize_t)sizeof(int64_t) &&
                tokens.len == (size + num_rows) * (Py_ssize_t)sizeof(int64_t) &&
                (num_rows ? size % num_rows == 0 : size == 0);
    if (sound) {
        Py_BEGIN_ALLOW_THREADS;
        for (Py_ssize_t row = 0; row < num_rows; row++) {
            Py_ssize_t width = size / num_rows;
            const int64_t *next = (const int64_t *)tokens.buf + row * (width + 1) + 1;
            const uint8_t *counts = (const uint8_t *)counted.buf + row * width;
            int64_t *label = (int64_t *)labels.buf + row * width;
            memcpy(label, next, (size_t)width * sizeof *label);
            for (Py_ssize_t column = 0; column < width; column++) { /* few do not count, or at the end */
                const uint8_t *found = memchr(counts + column, 0, (size_t)(width - column));
                if (!found) break;
                for (column = found - counts; column < width && !counts[column]; column++)
                    label[column] = IGNORED;
            }
        }
        Py_END_ALLOW_THREADS;
    }
    PyBuffer_Release(&labels);
    PyBuffer_Release(&tokens);
    PyBuffer_Release(&counted);
    if (!sound) return refuse();
    Py_RETURN_NONE;
}
