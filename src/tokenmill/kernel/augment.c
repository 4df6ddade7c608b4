/* Augmentations of rows: the loops over tokens of tokenmill/augment, which has each in NumPy as well.

   Rows are (rows, length) int64 in one buffer, length = block_size + 1. All steps of an augmentation are
   applied to a row before the next one: its tokens stay in the cache. What is random follows from the
   sample number of a row and two keys, as augment/row_random.py says. A chance is a whole number of
   2^-32, so that 2^32 means always. */

#include "loops.h"

#include <stdlib.h>
#include <string.h>

#define GOLDEN 0x9E3779B97F4A7C15u /* the step of splitmix64 */
#define DRAWS 8                    /* numbers that a column may ask for */
#define DRAW_OF_CHOICE 7           /* of these, the one that choices use */
#define BLOCK 64                   /* columns that are chosen together */
#define NUM_SENTINELS 3
#define NUM_SETTINGS 5
#define IGNORED (-100)

enum { FILL_IN_THE_MIDDLE, DROP_TOKENS, NEXT_TOKENS, KEEP_CLEAN, CHANGE_INPUTS, NUM_KINDS };

/* What is done to a row; augment/augmenter.py has the settings of each kind. */
typedef struct {
    uint64_t kind, key[2], setting[NUM_SETTINGS];
} Step;

/* What is known about ids. */
typedef struct {
    const uint8_t *is_special; /* by id; those above the table are not */
    int64_t lowest, highest;   /* special ids; if there are none, 0 and -1 */
    const int64_t *before;     /* for each special id, how many ids below it are not special; ascending */
    Py_ssize_t num_special;    /* in the vocabulary */
    uint64_t num_ordinary;     /* ids that are not special */
} Ids;

/* One row, and room for as many tokens. */
typedef struct {
    int64_t *tokens;
    Py_ssize_t length, filled; /* tokens before the padding */
    uint8_t *continues;        /* length: 0 where a token begins a document; or NULL */
    int64_t *labels;           /* length - 1; or NULL */
    int64_t sample;
    int64_t *clean, *copy;     /* length each */
    uint64_t *chosen;          /* a bit for each column, and whole words */
    uint32_t *columns;         /* length, and a block more */
} Row;

static inline uint64_t stream_of(const Step *step, const Row *row) {
    return mix64(mix64((uint64_t)row->sample + step->key[0]) ^ step->key[1]);
}

static inline uint64_t bits_of(uint64_t stream, uint64_t column, uint64_t draw) {
    return mix64(stream + (column * DRAWS + draw + 1) * GOLDEN);
}

/* A number below `limit` from the lower 32 bits. */
static inline uint64_t below(uint64_t bits, uint64_t limit) { return (bits & 0xFFFFFFFFu) * limit >> 32; }

static inline int is_special(const Ids *ids, int64_t id) {
    return id >= ids->lowest && id <= ids->highest && ids->is_special[id];
}

/* A bit for each of 64 random numbers of 32 bits that is below the chance. */
static inline uint64_t which_are_below(const uint64_t numbers[BLOCK / 2], uint32_t chance) {
    uint32_t halves[BLOCK];
    uint8_t are_below[BLOCK];
    uint64_t which = 0, eight;
    memcpy(halves, numbers, sizeof halves);
    for (int i = 0; i < BLOCK; i++) are_below[i] = halves[i] < chance;
    for (int i = 0; i < BLOCK; i += 8) { /* the bits of eight bytes come together in the highest byte */
        memcpy(&eight, are_below + i, sizeof eight);
        which |= (eight * UINT64_C(0x0102040810204080) >> 56) << i;
    }
    return which;
}

/* Moves those of up to 64 tokens that stay, a bit for each, to the front of `to`, which is not after
   `from`; returns how many they are. No branch depends on chance. */
static inline Py_ssize_t compact(int64_t *to, const int64_t *from, Py_ssize_t count, uint64_t stays) {
    Py_ssize_t left = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        to[left] = from[i];
        left += stays >> i & 1;
    }
    return left;
}

/* Writes the columns of a block, from `first` on, that are chosen; returns how many they are. */
static inline Py_ssize_t list_columns(uint32_t *columns, uint32_t first, uint64_t chosen) {
    Py_ssize_t count = 0;
    for (; chosen; chosen &= chosen - 1) columns[count++] = first + (uint32_t)__builtin_ctzll(chosen);
    return count;
}

#ifdef HAS_AVX512
WIDE static inline uint64_t which_are_below_wide(const uint64_t numbers[BLOCK / 2], uint32_t chance) {
    uint64_t which = 0;
    for (int part = 0; part < 4; part++) {
        __m512i halves = _mm512_loadu_si512(numbers + 8 * part);
        which |= (uint64_t)_mm512_cmplt_epu32_mask(halves, _mm512_set1_epi32((int)chance)) << 16 * part;
    }
    return which;
}

WIDE static inline Py_ssize_t compact_wide(int64_t *to, const int64_t *from, Py_ssize_t count, uint64_t stays) {
    Py_ssize_t i = 0, left = 0;
    for (; i + 8 <= count; i += 8) { /* what is written is before from + i + 8, and was read */
        __mmask8 mask = (__mmask8)(stays >> i);
        _mm512_storeu_si512(to + left, _mm512_maskz_compress_epi64(mask, _mm512_loadu_si512(from + i)));
        left += __builtin_popcount(mask);
    }
    return i < count ? left + compact(to + left, from + i, count - i, stays >> i) : left;
}

WIDE static inline Py_ssize_t list_columns_wide(uint32_t *columns, uint32_t first, uint64_t chosen) {
    const __m512i places = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    Py_ssize_t count = 0;
    for (uint32_t part = 0; part < BLOCK; part += 16) {
        __mmask16 mask = (__mmask16)(chosen >> part);
        __m512i all = _mm512_add_epi32(places, _mm512_set1_epi32((int)(first + part)));
        _mm512_storeu_si512(columns + count, _mm512_maskz_compress_epi32(mask, all));
        count += __builtin_popcount(mask);
    }
    return count;
}
#else
#define which_are_below_wide which_are_below
#define list_columns_wide list_columns
#define compact_wide compact
#endif

static ALWAYS_INLINE int has_special(const Ids *ids, const int64_t *tokens, Py_ssize_t count) {
    const uint64_t lowest = (uint64_t)ids->lowest, span = (uint64_t)ids->highest - lowest + 1; /* 0 without any */
    uint64_t some = 0;
    for (Py_ssize_t i = 0; i < count; i++) some |= (uint64_t)tokens[i] - lowest < span; /* without a branch */
    for (Py_ssize_t i = 0; some && i < count; i++)
        if (is_special(ids, tokens[i])) return 1;
    return 0;
}

/* A bit for each of up to 64 tokens that is among the special ids or between them. */
static ALWAYS_INLINE uint64_t may_be_special(const Ids *ids, const int64_t *tokens, Py_ssize_t count) {
    const uint64_t lowest = (uint64_t)ids->lowest, span = (uint64_t)ids->highest - lowest + 1; /* 0 without any */
    uint64_t which = 0;
    for (Py_ssize_t i = 0; i < count; i++) which |= (uint64_t)((uint64_t)tokens[i] - lowest < span) << i;
    return which;
}

/* A bit for each column below `stop` that is chosen with this chance and whose token is not special. */
static ALWAYS_INLINE void choose(Row *row, const Ids *ids, uint64_t stream, Py_ssize_t stop, uint64_t chance,
                                 int is_wide) {
    for (Py_ssize_t first = 0; first < stop; first += BLOCK) {
        uint64_t numbers[BLOCK / 2], chosen = UINT64_MAX;
        uint64_t counter = stream + ((uint64_t)first / 2 * DRAWS + DRAW_OF_CHOICE + 1) * GOLDEN;
        Py_ssize_t count = stop - first < BLOCK ? stop - first : BLOCK;
        for (int pair = 0; pair < BLOCK / 2; pair++)
            numbers[pair] = mix64(counter + (uint64_t)pair * (DRAWS * GOLDEN)); /* bits_of(first / 2 + pair) */
        if (chance <= UINT32_MAX)
            chosen = (is_wide ? which_are_below_wide : which_are_below)(numbers, (uint32_t)chance);
        chosen &= UINT64_MAX >> (BLOCK - count);
        /* Few of the chosen are near a special id: looking at each would be a branch that depends on chance. */
        for (uint64_t left = chosen & may_be_special(ids, row->tokens + first, count); left; left &= left - 1) {
            int bit = __builtin_ctzll(left);
            chosen &= ~((uint64_t)is_special(ids, row->tokens[first + bit]) << bit);
        }
        row->chosen[first / BLOCK] = chosen;
    }
}

/* The id that is not special and has this number among those. */
static inline int64_t ordinary_id(const Ids *ids, int64_t number) {
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

/* Inputs that are chosen stay as they are (keep), become a random id (up to random) or the mask. With
   `has_labels` the label of each is its own token before any change, and there are no others. */
static ALWAYS_INLINE void change_inputs(Row *row, const Ids *ids, const Step *step, int is_wide) {
    const uint64_t choice = step->setting[0], keep = step->setting[1], random = step->setting[2];
    const int64_t mask_id = (int64_t)step->setting[3], has_labels = step->setting[4] != 0;
    const Py_ssize_t num_inputs = row->length - 1; /* the last token is a target only */
    const uint64_t stream = stream_of(step, row), num_ordinary = ids->num_ordinary;
    const Py_ssize_t stop = row->filled < num_inputs ? row->filled : num_inputs;
    choose(row, ids, stream, stop, choice, is_wide);
    uint32_t *restrict columns = row->columns;
    Py_ssize_t count = 0;
    for (Py_ssize_t first = 0; first < stop; first += BLOCK)
        count += (is_wide ? list_columns_wide : list_columns)(columns + count, (uint32_t)first, row->chosen[first / BLOCK]);
    int64_t *restrict tokens = row->tokens;
    uint64_t *restrict bits = (uint64_t *)row->copy;
    if (has_labels) {
        int64_t *restrict labels = row->labels;
        for (Py_ssize_t i = 0; i < num_inputs; i++) labels[i] = IGNORED;
        for (Py_ssize_t i = 0; i < count; i++) labels[columns[i]] = row->clean[columns[i]];
    }
    for (Py_ssize_t i = 0; i < count; i++) bits[i] = bits_of(stream, (uint64_t)columns[i], 0);
    const int64_t first_special = ids->num_special ? ids->before[0] : INT64_MAX;
    for (Py_ssize_t i = 0; i < count; i++) {
        /* An id is drawn for each: a branch that depends on chance takes longer. */
        int64_t id = (int64_t)below(bits[i], num_ordinary);
        if (id >= first_special) id = ordinary_id(ids, id);
        id = bits[i] >> 32 < random ? id : mask_id;
        tokens[columns[i]] = bits[i] >> 32 < keep ? tokens[columns[i]] : id;
    }
}

/* The documents of a row after the chosen columns were dropped, and `left` tokens are left. */
static ALWAYS_INLINE void drop_documents(Row *row, Py_ssize_t left) {
    uint8_t *continues = row->continues;
    int64_t *begins = row->copy; /* documents that begin after the first column */
    Py_ssize_t num_begins = 0, gone = 0; /* columns dropped before this word */
    for (Py_ssize_t column = 1, word = 0; column < row->filled; column++) {
        const uint8_t *found = memchr(continues + column, 0, (size_t)(row->filled - column));
        if (!found) break;
        column = found - continues;
        for (; word < column / BLOCK; word++) gone += __builtin_popcountll(row->chosen[word]);
        uint64_t before = row->chosen[word] & ((UINT64_C(1) << column % BLOCK) - 1);
        /* A document of which nothing is left begins where the next one does. */
        begins[num_begins++] = column - gone - __builtin_popcountll(before);
    }
    memset(continues, 1, (size_t)left);
    memset(continues + left, 0, (size_t)(row->length - left));
    for (Py_ssize_t i = 0; i < num_begins; i++) continues[begins[i]] = 0;
}

/* Tokens that are chosen leave the row; those after them move up, and padding fills it. */
static ALWAYS_INLINE void drop_tokens(Row *row, const Ids *ids, const Step *step, int is_wide) {
    const uint64_t chance = step->setting[0];
    const int64_t padding = (int64_t)step->setting[1];
    const Py_ssize_t length = row->length, filled = row->filled;
    int64_t *tokens = row->tokens;
    Py_ssize_t left = 0;
    choose(row, ids, stream_of(step, row), filled, chance, is_wide);
    for (Py_ssize_t first = 0; first < filled; first += BLOCK) {
        Py_ssize_t count = filled - first < BLOCK ? filled - first : BLOCK;
        left += (is_wide ? compact_wide : compact)(tokens + left, tokens + first, count, ~row->chosen[first / BLOCK]);
    }
    for (Py_ssize_t column = left; column < length; column++) tokens[column] = padding;
    if (row->continues) drop_documents(row, left);
    row->filled = left;
}

/* The label of each input is the next token, and IGNORED for padding; with `within_documents` also where
   that begins a document. */
static ALWAYS_INLINE void next_tokens(Row *row, const Step *step) {
    Py_ssize_t num_inputs = row->length - 1, counted = row->filled > 0 ? row->filled - 1 : 0;
    memcpy(row->labels, row->tokens + 1, (size_t)counted * sizeof *row->labels);
    for (Py_ssize_t column = counted; column < num_inputs; column++) row->labels[column] = IGNORED;
    const uint8_t *within = step->setting[0] ? row->continues + 1 : NULL; /* of the target of each input */
    for (Py_ssize_t column = 0; within && column < counted; column++) {
        const uint8_t *found = memchr(within + column, 0, (size_t)(counted - column));
        if (!found) break;
        column = found - within;
        row->labels[column] = IGNORED;
    }
}

/* A text of `size` tokens as prefix, suffix and middle; its last three give way to the sentinels. */
static void rearrange(int64_t *text, Py_ssize_t size, Py_ssize_t prefix, Py_ssize_t second_cut,
                      const uint64_t sentinels[NUM_SENTINELS], int64_t *copy) {
    Py_ssize_t suffix = size - NUM_SENTINELS - second_cut, middle = second_cut - prefix;
    memcpy(copy, text + prefix, (size_t)middle * sizeof *copy);
    memmove(text + prefix + 2, text + second_cut, (size_t)suffix * sizeof *text);
    memmove(text + 1, text, (size_t)prefix * sizeof *text);
    memcpy(text + size - middle, copy, (size_t)middle * sizeof *copy);
    text[0] = (int64_t)sentinels[0];
    text[prefix + 1] = (int64_t)sentinels[1];
    text[prefix + suffix + 2] = (int64_t)sentinels[2];
}

/* One document of a row, columns start .. stop - 1; see augment/fill_in_the_middle.py. */
static ALWAYS_INLINE void fill_document(Row *row, const Ids *ids, const Step *step, uint64_t stream,
                                        Py_ssize_t start, Py_ssize_t stop) {
    uint64_t rate = step->setting[0], spm_rate = step->setting[1];
    int64_t *tokens = row->tokens;
    for (int i = 0; i < 2; i++) start += start < stop && is_special(ids, tokens[start]);
    stop -= start < stop && is_special(ids, tokens[stop - 1]);
    Py_ssize_t size = stop - start;
    if (size <= NUM_SENTINELS || bits_of(stream, (uint64_t)start, 0) >> 32 >= rate ||
        has_special(ids, tokens + start, size))
        return;
    uint64_t limit = (uint64_t)(size - NUM_SENTINELS + 1);
    Py_ssize_t one = (Py_ssize_t)below(bits_of(stream, (uint64_t)start, 2), limit);
    Py_ssize_t other = (Py_ssize_t)below(bits_of(stream, (uint64_t)start, 3), limit);
    int is_spm = bits_of(stream, (uint64_t)start, 1) >> 32 < spm_rate;
    Py_ssize_t first_cut = one < other ? one : other, second_cut = one < other ? other : one;
    rearrange(tokens + start, size, is_spm ? 0 : first_cut, second_cut, step->setting + 2, row->copy);
}

static ALWAYS_INLINE void fill_in_the_middle(Row *row, const Ids *ids, const Step *step) {
    uint64_t stream = stream_of(step, row);
    for (Py_ssize_t start = 0, stop; start < row->filled; start = stop) {
        const uint8_t *end = memchr(row->continues + start + 1, 0, (size_t)(row->filled - start - 1));
        stop = end ? end - row->continues : row->filled;
        fill_document(row, ids, step, stream, start, stop);
    }
}

static ALWAYS_INLINE void apply_steps(Row *row, const Ids *ids, const Step *steps, Py_ssize_t num_steps,
                                      int is_wide) {
    int64_t *room = row->clean;
    row->clean = row->tokens; /* unless it is kept */
    for (const Step *step = steps; step < steps + num_steps; step++) {
        if (step->kind == FILL_IN_THE_MIDDLE) fill_in_the_middle(row, ids, step);
        if (step->kind == DROP_TOKENS) drop_tokens(row, ids, step, is_wide);
        if (step->kind == NEXT_TOKENS) next_tokens(row, step);
        if (step->kind == CHANGE_INPUTS) change_inputs(row, ids, step, is_wide);
        if (step->kind == KEEP_CLEAN) row->clean = memcpy(room, row->tokens, (size_t)row->length * sizeof *room);
    }
    row->clean = room;
}

static void apply_plain(Row *row, const Ids *ids, const Step *steps, Py_ssize_t num_steps) {
    apply_steps(row, ids, steps, num_steps, 0);
}

WIDE static void apply_wide(Row *row, const Ids *ids, const Step *steps, Py_ssize_t num_steps) {
    apply_steps(row, ids, steps, num_steps, 1);
}

/* Whether all that the steps need is there. */
static int are_sound(const Step *steps, Py_ssize_t num_steps, int has_documents, int has_labels) {
    int sound = 1;
    for (const Step *step = steps; sound && step < steps + num_steps; step++) {
        int needs_documents = step->kind == FILL_IN_THE_MIDDLE || (step->kind == NEXT_TOKENS && step->setting[0]);
        int needs_labels = step->kind == NEXT_TOKENS || (step->kind == CHANGE_INPUTS && step->setting[4]);
        sound = step->kind < NUM_KINDS && (has_documents || !needs_documents) && (has_labels || !needs_labels);
    }
    return sound;
}

static int are_filled(const int64_t *filled, Py_ssize_t num_rows, Py_ssize_t length) {
    for (Py_ssize_t row = 0; row < num_rows; row++)
        if (filled[row] < 0 || filled[row] > length) return 0;
    return 1;
}

/* augment_rows(tokens, samples, filled, continues, labels, steps, special, before, num_ordinary): change rows.
   `tokens` are (rows, length); `samples` and `filled`, the tokens before the padding, (rows,): all int64;
   `continues` is a byte for each token, `labels` (rows, length - 1) int64, and both may be None. `steps` are
   rows of 8 uint64; `special` is a byte for each id. All but samples, steps and ids may be changed. */
PyObject *augment_rows(PyObject *self, PyObject *arguments) {
    enum { TOKENS, SAMPLES, FILLED, CONTINUES, LABELS, STEPS, SPECIAL, BEFORE, NUM_VIEWS };
    Py_buffer v[NUM_VIEWS];
    unsigned long long num_ordinary;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "w*y*w*z*z*y*y*y*K", &v[TOKENS], &v[SAMPLES], &v[FILLED], &v[CONTINUES],
                          &v[LABELS], &v[STEPS], &v[SPECIAL], &v[BEFORE], &num_ordinary))
        return NULL;
    const Py_ssize_t word = (Py_ssize_t)sizeof(int64_t);
    Py_ssize_t num_rows = v[SAMPLES].len / word, length = num_rows ? v[TOKENS].len / word / num_rows : 1;
    Py_ssize_t num_steps = v[STEPS].len / (Py_ssize_t)sizeof(Step);
    int sound = v[SAMPLES].len == num_rows * word && v[TOKENS].len == num_rows * length * word && length > 0 &&
                length < UINT32_MAX && v[FILLED].len == v[SAMPLES].len && v[SPECIAL].len > 0 &&
                num_ordinary <= UINT32_MAX && are_filled(v[FILLED].buf, num_rows, length) &&
                (!v[CONTINUES].buf || (v[CONTINUES].len == num_rows * length && !v[CONTINUES].readonly)) &&
                (!v[LABELS].buf || (v[LABELS].len == num_rows * (length - 1) * word && !v[LABELS].readonly)) &&
                are_sound(v[STEPS].buf, num_steps, v[CONTINUES].buf != NULL, v[LABELS].buf != NULL);
    int64_t *room = sound ? malloc((size_t)(4 * length + BLOCK) * sizeof *room) : NULL;
    if (room) {
        const uint8_t *special = v[SPECIAL].buf, *first = memchr(special, 1, (size_t)v[SPECIAL].len);
        const Ids ids = {special, first ? first - special : 0, first ? v[SPECIAL].len - 1 : -1, v[BEFORE].buf,
                         v[BEFORE].len / word, num_ordinary};
        int64_t *filled = v[FILLED].buf;
        Py_BEGIN_ALLOW_THREADS;
        const int is_wide = has_wide;
        for (Py_ssize_t i = 0; i < num_rows; i++) {
            Row row = {(int64_t *)v[TOKENS].buf + i * length, length, filled[i],
                       v[CONTINUES].buf ? (uint8_t *)v[CONTINUES].buf + i * length : NULL,
                       v[LABELS].buf ? (int64_t *)v[LABELS].buf + i * (length - 1) : NULL,
                       ((const int64_t *)v[SAMPLES].buf)[i], room, room + length, (uint64_t *)room + 2 * length,
                       (uint32_t *)(room + 3 * length)};
            (is_wide ? apply_wide : apply_plain)(&row, &ids, v[STEPS].buf, num_steps);
            filled[i] = row.filled;
        }
        Py_END_ALLOW_THREADS;
    }
    free(room);
    for (int i = 0; i < NUM_VIEWS; i++) PyBuffer_Release(&v[i]);
    if (!sound) {
        PyErr_SetString(PyExc_ValueError, "the arrays are not those of one group of rows");
        return NULL;
    }
    if (!room) return PyErr_NoMemory();
    Py_RETURN_NONE;
}
