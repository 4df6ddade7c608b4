/* The words of texts: sketches, shared shingles and known n-grams (text/near/word_runs.py has the rules).

   Where words are is a bit a byte: one pass over blocks of 64 bytes finds them, a second one walks over
   their edges. A word of up to 8 bytes is hashed by one load. */

#include "loops.h"

#include <stdlib.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define BLOCK 64
#define FREE_ROUNDS 32
#define HIT_NUMBERS 3
#define MOST_BINS 4096
#define MOST_WORDS 4096 /* of a run that is looked for */
#define OF_LENGTH UINT64_C(0x9E3779B97F4A7C15)
#define OF_ROUND UINT64_C(0xD1342543DE82EF95)
#define OF_WORD UINT64_C(0x2545F4914F6CDD1D)

/* What one text after another is worked on in. */
typedef struct {
    uint8_t *text;     /* in lower case where that is wanted, and some bytes more */
    uint64_t *inside;  /* a bit for each byte: it belongs to a word */
    uint64_t *begins;  /* a word begins here, if it is inside one */
    uint64_t *hashes;  /* of the words, then of what is made of them */
    uint64_t *table;   /* a set */
    size_t room, table_room;
} Scratch;

static void free_scratch(Scratch *scratch) {
    free(scratch->text);
    free(scratch->inside);
    free(scratch->begins);
    free(scratch->hashes);
    free(scratch->table);
}

static int make_room(Scratch *scratch, size_t size) {
    if (scratch->text && size <= scratch->room) return 0;
    size_t room = size + size / 2 + 4096;
    free(scratch->text);
    free(scratch->inside);
    free(scratch->begins);
    free(scratch->hashes);
    scratch->text = malloc(room + 2 * BLOCK);
    scratch->inside = malloc((room / BLOCK + 3) * sizeof(uint64_t));
    scratch->begins = malloc((room / BLOCK + 3) * sizeof(uint64_t));
    scratch->hashes = malloc((room + 1) * sizeof(uint64_t));
    scratch->room = room;
    return scratch->text && scratch->inside && scratch->begins && scratch->hashes ? 0 : -1;
}

/* Bits of a block: parts of words, other visible characters, not ASCII. Its text is folded in place. */
typedef struct {
    uint64_t word, mark, high;
} Classes;

static inline Classes classes_of(uint8_t *text, int code) {
    Classes found = {0, 0, 0};
#if defined(__SSE2__)
    for (int part = 0; part < 4; part++) {
        __m128i *at = (__m128i *)(text + 16 * part);
        __m128i bytes = _mm_loadu_si128(at);
        /* Signed: what is not ASCII is below 0, and in no range. */
        __m128i upper = _mm_and_si128(_mm_cmpgt_epi8(bytes, _mm_set1_epi8('A' - 1)),
                                      _mm_cmplt_epi8(bytes, _mm_set1_epi8('Z' + 1)));
        __m128i folded = _mm_or_si128(bytes, _mm_and_si128(upper, _mm_set1_epi8(0x20)));
        __m128i letter = _mm_and_si128(_mm_cmpgt_epi8(folded, _mm_set1_epi8('a' - 1)),
                                       _mm_cmplt_epi8(folded, _mm_set1_epi8('z' + 1)));
        __m128i digit = _mm_and_si128(_mm_cmpgt_epi8(bytes, _mm_set1_epi8('0' - 1)),
                                      _mm_cmplt_epi8(bytes, _mm_set1_epi8('9' + 1)));
        letter = _mm_or_si128(letter, upper);
        __m128i word = _mm_or_si128(letter, digit);
        if (code) {
            word = _mm_or_si128(word, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('_')));
            __m128i seen = _mm_and_si128(_mm_cmpgt_epi8(bytes, _mm_set1_epi8(0x20)),
                                         _mm_cmplt_epi8(bytes, _mm_set1_epi8(0x7F)));
            found.mark |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_andnot_si128(word, seen)) << 16 * part;
        } else {
            _mm_storeu_si128(at, folded);
        }
        found.word |= (uint64_t)(uint32_t)_mm_movemask_epi8(word) << 16 * part;
        found.high |= (uint64_t)(uint32_t)_mm_movemask_epi8(bytes) << 16 * part;
    }
#else
    for (int at = 0; at < BLOCK; at++) {
        uint8_t byte = text[at], folded = byte | 0x20;
        int word = (folded >= 'a' && folded <= 'z') || (byte >= '0' && byte <= '9') || (code && byte == '_');
        if (!code && byte >= 'A' && byte <= 'Z') text[at] = folded;
        found.word |= (uint64_t)word << at;
        found.mark |= (uint64_t)(code && !word && byte > 0x20 && byte < 0x7F) << at;
        found.high |= (uint64_t)(byte >> 7) << at;
    }
#endif
    return found;
}

/* What a character that is not ASCII is: a separator, part of a word, or a word by itself. */
enum { SEPARATOR, PART, WHOLE };

static inline int class_of_character(const uint8_t *text, size_t left, size_t *length) {
    uint8_t lead = text[0];
    size_t wanted = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    *length = 1;
    if (lead < 0xC2 || lead > 0xF4 || wanted > left) return SEPARATOR;
    for (size_t more = 1; more < wanted; more++)
        if ((text[more] & 0xC0) != 0x80) return SEPARATOR;
    *length = wanted;
    uint8_t next = text[1];
    if (wanted == 2) return lead == 0xC2 ? SEPARATOR : PART;
    if (wanted == 4) return WHOLE;
    switch (lead) {
    case 0xE0: return next >= 0xB8 && next <= 0xBB ? WHOLE : PART;
    case 0xE2: return next < 0xB0 ? SEPARATOR : PART;
    case 0xE3: return next == 0x80 ? SEPARATOR : WHOLE;
    case 0xEF: return next >= 0xA4 ? WHOLE : PART;
    default: return lead >= 0xE4 && lead <= 0xE9 ? WHOLE : PART;
    }
}

static inline void set_bit(uint64_t *bits, size_t at) { bits[at / BLOCK] |= UINT64_C(1) << at % BLOCK; }

static void add_characters(Scratch *scratch, size_t size, size_t from, uint64_t high, size_t *done) {
    for (; high; high &= high - 1) {
        size_t at = from + (size_t)__builtin_ctzll(high), length;
        if (at < *done) continue;
        int kind = class_of_character(scratch->text + at, size - at, &length);
        *done = at + length;
        if (kind == SEPARATOR) continue;
        for (size_t more = 0; more < length; more++) set_bit(scratch->inside, at + more);
        if (kind == WHOLE) {
            set_bit(scratch->begins, at);
            set_bit(scratch->begins, at + length);
        }
    }
}

static inline uint64_t hash_word(const uint8_t *word, size_t size) {
    uint64_t hash = size * OF_LENGTH, bytes;
    for (; size > 8; size -= 8, word += 8) {
        memcpy(&bytes, word, 8);
        hash = mix64(hash ^ bytes);
    }
    memcpy(&bytes, word, 8);
    return mix64(hash ^ (bytes & UINT64_MAX >> (64 - 8 * size)));
}

/* Hash the words of a text into scratch->hashes; return how many there are, or -1. */
static Py_ssize_t hash_words(Scratch *scratch, PyObject *given, int code) {
    char *bytes;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(given, &bytes, &length) < 0) return -1;
    size_t size = (size_t)length, num_blocks = size / BLOCK + 1, done = 0;
    if (make_room(scratch, size) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(scratch->text, bytes, size);
    memset(scratch->text + size, 0, 2 * BLOCK);
    memset(scratch->inside, 0, (num_blocks + 2) * sizeof(uint64_t));
    memset(scratch->begins, 0, (num_blocks + 2) * sizeof(uint64_t));
    for (size_t block = 0; block < num_blocks; block++) {
        Classes found = classes_of(scratch->text + block * BLOCK, code);
        scratch->inside[block] |= found.word | found.mark;
        scratch->begins[block] |= found.mark | found.mark << 1;
        scratch->begins[block + 1] |= found.mark >> (BLOCK - 1);
        if (found.high) add_characters(scratch, size, block * BLOCK, found.high, &done);
    }
    size_t count = 0, start = 0;
    int open = 0;
    uint64_t was_inside = 0;
    for (size_t block = 0; block < num_blocks; block++) {
        uint64_t inside = scratch->inside[block];
        uint64_t edges = (inside ^ (inside << 1 | was_inside)) | (inside & scratch->begins[block]);
        was_inside = inside >> (BLOCK - 1);
        for (; edges; edges &= edges - 1) {
            int bit = __builtin_ctzll(edges);
            size_t at = block * BLOCK + (size_t)bit;
            if (open) scratch->hashes[count++] = hash_word(scratch->text + start, at - start);
            open = inside >> bit & 1;
            start = at;
        }
    }
    return (Py_ssize_t)count;
}

/* Turn the hashes of words into those of all runs of `width` words: a polynomial of them, mixed. A text
   of fewer words is one run. Returns how many there are. */
static Py_ssize_t hash_runs(uint64_t *hashes, Py_ssize_t count, Py_ssize_t width) {
    uint64_t power = 1, sum = 0, first = 0;
    if (count < width) width = count;
    for (Py_ssize_t word = 0; word < width; word++) {
        sum = sum * OF_WORD + hashes[word];
        power *= OF_WORD;
    }
    for (Py_ssize_t run = 0; run + width <= count && width; run++) {
        uint64_t next = run + width < count ? hashes[run + width] : 0;
        first = hashes[run];
        hashes[run] = mix64(sum);
        sum = sum * OF_WORD + next - first * power;
    }
    return count ? count - width + 1 : 0;
}

/* The least hash of each bin: a similarity sketch that fills its bins round by round, so that a few runs
   are enough. A round puts every run into one bin by its hash of that round; from FREE_ROUNDS on each
   goes into the next bin. A bin that an earlier round filled stays as it is. */
static void fill_bins(uint64_t *bins, uint8_t *filled, Py_ssize_t num_bins, const uint64_t *runs, Py_ssize_t count) {
    Py_ssize_t num_filled = 0;
    memset(filled, 0, (size_t)num_bins);
    for (uint64_t round = 0; num_filled < num_bins; round++) {
        uint64_t seed = (round + 1) * OF_ROUND;
        Py_ssize_t fixed = round < FREE_ROUNDS ? -1 : (Py_ssize_t)(round - FREE_ROUNDS);
        for (Py_ssize_t run = 0; run < count; run++) {
            uint64_t hash = mix64(runs[run] ^ seed);
            Py_ssize_t bin = fixed >= 0 ? fixed : (Py_ssize_t)((hash >> 32) * (uint64_t)num_bins >> 32);
            if (filled[bin] == 1) continue;
            if (!filled[bin] || hash < bins[bin]) bins[bin] = hash;
            filled[bin] = 2; /* in this round */
        }
        num_filled = 0;
        for (Py_ssize_t bin = 0; bin < num_bins; bin++) num_filled += filled[bin] = filled[bin] != 0;
    }
}

/* hash_bands(texts, code, width, num_bands, rows): for each text and band, the hash of `rows` bins of its
   sketch; 64 bits each. And for each text its number of runs: 0 where it has no word, and no sketch. */
PyObject *hash_bands(PyObject *self, PyObject *arguments) {
    PyObject *texts, *bands = NULL, *counts = NULL, *found = NULL;
    int code;
    Py_ssize_t width, num_bands, rows;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "O!pnnn", &PyList_Type, &texts, &code, &width, &num_bands, &rows)) return NULL;
    if (width < 1 || num_bands < 1 || rows < 1 || num_bands > MOST_BINS || rows > MOST_BINS / num_bands) {
        PyErr_SetString(PyExc_ValueError, "a sketch has bands of some rows");
        return NULL;
    }
    Py_ssize_t num_texts = PyList_Size(texts), num_bins = num_bands * rows;
    Scratch scratch = {0};
    uint64_t *bins = malloc((size_t)num_bins * sizeof *bins);
    uint8_t *filled = malloc((size_t)num_bins);
    bands = PyBytes_FromStringAndSize(NULL, num_texts * num_bands * (Py_ssize_t)sizeof *bins);
    counts = PyBytes_FromStringAndSize(NULL, num_texts * (Py_ssize_t)sizeof(int64_t));
    Py_ssize_t number = bins && filled && bands && counts ? 0 : num_texts + 1;
    for (; number < num_texts; number++) {
        Py_ssize_t count = hash_words(&scratch, PyList_GetItem(texts, number), code);
        if (count < 0) break;
        int64_t num_runs = hash_runs(scratch.hashes, count, width);
        uint64_t *out = (uint64_t *)PyBytes_AsString(bands) + number * num_bands;
        memcpy(PyBytes_AsString(counts) + number * (Py_ssize_t)sizeof num_runs, &num_runs, sizeof num_runs);
        memset(out, 0, (size_t)num_bands * sizeof *out);
        if (num_runs) fill_bins(bins, filled, num_bins, scratch.hashes, num_runs);
        for (Py_ssize_t band = 0; num_runs && band < num_bands; band++) {
            out[band] = (uint64_t)band;
            for (Py_ssize_t row = 0; row < rows; row++) out[band] = mix64(out[band] ^ bins[band * rows + row]);
        }
    }
    if (number == num_texts)
        found = PyTuple_Pack(2, bands, counts);
    else if (!PyErr_Occurred())
        PyErr_NoMemory();
    Py_XDECREF(bands);
    Py_XDECREF(counts);
    free(bins);
    free(filled);
    free_scratch(&scratch);
    return found;
}

/* An empty set for `count` numbers in scratch->table; its mask, or 0 where there is no memory. */
static size_t empty_set(Scratch *scratch, size_t count) {
    size_t room = 64;
    while (room < 2 * count + 2) room *= 2;
    if (room > scratch->table_room) {
        free(scratch->table);
        scratch->table = malloc(room * sizeof(uint64_t));
        scratch->table_room = scratch->table ? room : 0;
    }
    if (scratch->table) memset(scratch->table, 0, room * sizeof(uint64_t));
    return scratch->table ? room - 1 : 0;
}

/* Where a number is in a set, or where it would be. 0 marks what is free, so it counts as 1. */
static inline uint64_t *place_in_set(uint64_t *table, size_t mask, uint64_t number) {
    size_t at = (size_t)number & mask;
    while (table[at] && table[at] != number) at = (at + 1) & mask;
    return table + at;
}

/* compare_texts(texts, pairs, code, width): for each pair of texts, given as two numbers of 64 bits, how
   many different runs of words they share, and how many they have together; by the runs' hashes. */
PyObject *compare_texts(PyObject *self, PyObject *arguments) {
    PyObject *texts, *found = NULL;
    Py_buffer pairs;
    int code, is_sound;
    Py_ssize_t width;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "O!y*pn", &PyList_Type, &texts, &pairs, &code, &width)) return NULL;
    Py_ssize_t num_texts = PyList_Size(texts), num_numbers = pairs.len / (Py_ssize_t)sizeof(int64_t);
    const int64_t *numbers = pairs.buf;
    Scratch scratch = {0};
    uint64_t **sets = calloc((size_t)num_texts + 1, sizeof *sets);
    size_t *sizes = calloc((size_t)num_texts + 1, sizeof *sizes);
    is_sound = sets && sizes;
    if (!is_sound) PyErr_NoMemory();
    if (is_sound && (width < 1 || pairs.len % (2 * (Py_ssize_t)sizeof(int64_t)))) is_sound = 0;
    for (Py_ssize_t at = 0; is_sound && at < num_numbers; at++) is_sound = numbers[at] >= 0 && numbers[at] < num_texts;
    if (!is_sound && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "the pairs are not those of the texts");
    for (Py_ssize_t number = 0; is_sound && number < num_texts; number++) {
        Py_ssize_t count = hash_words(&scratch, PyList_GetItem(texts, number), code);
        count = count < 0 ? -1 : hash_runs(scratch.hashes, count, width);
        size_t mask = count < 0 ? 0 : empty_set(&scratch, (size_t)count);
        sets[number] = mask ? malloc(((size_t)count + 1) * sizeof(uint64_t)) : NULL;
        is_sound = sets[number] != NULL;
        for (Py_ssize_t run = 0; is_sound && run < count; run++) {
            uint64_t hash = scratch.hashes[run] | !scratch.hashes[run];
            uint64_t *place = place_in_set(scratch.table, mask, hash);
            if (!*place) sets[number][sizes[number]++] = *place = hash;
        }
        if (!is_sound && !PyErr_Occurred()) PyErr_NoMemory();
    }
    found = is_sound ? PyBytes_FromStringAndSize(NULL, pairs.len) : NULL;
    int64_t *out = found ? (int64_t *)PyBytes_AsString(found) : NULL, in_table = -1;
    size_t mask = 0;
    for (Py_ssize_t at = 0; found && at < num_numbers; at += 2) {
        int64_t left = numbers[at], right = numbers[at + 1], shared = 0;
        if (left != in_table) {
            mask = empty_set(&scratch, sizes[left]);
            if (!mask) {
                Py_CLEAR(found);
                PyErr_NoMemory();
                break;
            }
            for (size_t run = 0; run < sizes[left]; run++)
                *place_in_set(scratch.table, mask, sets[left][run]) = sets[left][run];
            in_table = left;
        }
        for (size_t run = 0; run < sizes[right]; run++)
            shared += *place_in_set(scratch.table, mask, sets[right][run]) != 0;
        out[at] = shared;
        out[at + 1] = (int64_t)(sizes[left] + sizes[right]) - shared;
    }
    for (Py_ssize_t number = 0; sets && number < num_texts; number++) free(sets[number]);
    free(sets);
    free(sizes);
    free_scratch(&scratch);
    PyBuffer_Release(&pairs);
    return found;
}

/* The runs that are looked for: some of `width` words, and whole passages of fewer words. */
typedef struct {
    const uint64_t *filter; /* a bit for some bits of each hash that is looked for */
    const uint64_t *runs;   /* a set of the hashes of all runs and passages */
    const uint64_t *heads;  /* a set of the first `head` words of short passages */
    const uint32_t *sizes;  /* for each place in `heads`, a bit for each number of words */
    size_t filter_mask, runs_mask, heads_mask;
    Py_ssize_t width, head;
} Known;

static inline int is_in(const uint64_t *table, size_t mask, uint64_t number, size_t *at) {
    number |= !number;
    *at = (size_t)number & mask;
    while (table[*at] && table[*at] != number) *at = (*at + 1) & mask;
    return table[*at] != 0;
}

static inline int may_be_known(const Known *known, uint64_t hash) {
    size_t bit = (size_t)(hash >> 20) & known->filter_mask;
    return known->filter[bit / 64] >> bit % 64 & 1;
}

/* Three numbers a hit: of the text, of the first word, and the hash. */
typedef struct {
    uint64_t *items;
    size_t count, room;
} Hits;

static int add_hit(Hits *hits, uint64_t text, Py_ssize_t word, uint64_t hash) {
    if (hits->count + HIT_NUMBERS > hits->room) {
        size_t room = 2 * hits->room + 1024 * HIT_NUMBERS;
        uint64_t *items = realloc(hits->items, room * sizeof *items);
        if (!items) return -1;
        hits->items = items;
        hits->room = room;
    }
    hits->items[hits->count++] = text;
    hits->items[hits->count++] = (uint64_t)word;
    hits->items[hits->count++] = hash;
    return 0;
}

/* Passages that begin with the `head` words at some word. */
static int find_short(const Known *known, const uint64_t *words, Py_ssize_t left, uint32_t sizes, uint64_t text,
                      Py_ssize_t word, Hits *hits) {
    size_t at;
    for (; sizes; sizes &= sizes - 1) {
        Py_ssize_t size = __builtin_ctz(sizes);
        uint64_t sum = 0;
        if (size > left) break;
        for (Py_ssize_t next = 0; next < size; next++) sum = sum * OF_WORD + words[next];
        if (is_in(known->runs, known->runs_mask, sum, &at) && add_hit(hits, text, word, sum) < 0) return -1;
    }
    return 0;
}

/* The hash of a run is the polynomial of its words' hashes, which are mixed. */
static int find_in_words(const Known *known, const uint64_t *words, Py_ssize_t count, uint64_t text, Hits *hits) {
    uint64_t power = 1, head_power = 1, sum = 0, head_sum = 0;
    size_t at;
    for (Py_ssize_t word = 0; word < known->width; word++) power *= OF_WORD;
    for (Py_ssize_t word = 0; word < known->head; word++) head_power *= OF_WORD;
    for (Py_ssize_t last = 0; last < count; last++) {
        Py_ssize_t first = last - known->width + 1;
        sum = sum * OF_WORD + words[last] - (first > 0 ? words[first - 1] * power : 0);
        if (first >= 0 && may_be_known(known, sum) && is_in(known->runs, known->runs_mask, sum, &at) &&
            add_hit(hits, text, first, sum) < 0)
            return -1;
        if (!known->head) continue;
        first = last - known->head + 1;
        head_sum = head_sum * OF_WORD + words[last] - (first > 0 ? words[first - 1] * head_power : 0);
        if (first >= 0 && may_be_known(known, head_sum) && is_in(known->heads, known->heads_mask, head_sum, &at) &&
            find_short(known, words + first, count - first, known->sizes[at], text, first, hits) < 0)
            return -1;
    }
    return 0;
}

/* Whether a table has a power of two of places, and `*mask` of them less one. */
static int is_table(const Py_buffer *table, size_t item, size_t *mask) {
    size_t room = (size_t)table->len / item;
    *mask = room - 1;
    return room > 0 && !(room & (room - 1)) && room * item == (size_t)table->len;
}

static int has_free_place(const uint64_t *table, size_t mask) {
    for (size_t at = 0; at <= mask; at++)
        if (!table[at]) return 1;
    return 0;
}

/* find_runs(texts, width, head, filter, runs, heads, sizes): where known runs of words are in the texts:
   the number of the text, that of its first word, and the hash, 64 bits each. */
PyObject *find_runs(PyObject *self, PyObject *arguments) {
    PyObject *texts, *found = NULL;
    Py_buffer filter, runs, heads, sizes;
    Known known = {0};
    (void)self;
    if (!PyArg_ParseTuple(arguments, "O!nny*y*y*y*", &PyList_Type, &texts, &known.width, &known.head, &filter, &runs,
                          &heads, &sizes))
        return NULL;
    known.filter = filter.buf;
    known.runs = runs.buf;
    known.heads = heads.buf;
    known.sizes = sizes.buf;
    size_t words, sizes_mask;
    int sound = is_table(&filter, 8, &words) && is_table(&runs, 8, &known.runs_mask) &&
                is_table(&heads, 8, &known.heads_mask) && is_table(&sizes, 4, &sizes_mask) &&
                sizes_mask == known.heads_mask && known.width > 0 && known.head >= 0 &&
                known.width <= MOST_WORDS && known.head <= MOST_WORDS &&
                has_free_place(known.runs, known.runs_mask) && has_free_place(known.heads, known.heads_mask);
    known.filter_mask = 64 * (words + 1) - 1;
    Scratch scratch = {0};
    Hits hits = {NULL, 0, 0};
    if (!sound) PyErr_SetString(PyExc_ValueError, "these are not tables of runs");
    for (Py_ssize_t number = 0; sound && number < PyList_Size(texts); number++) {
        Py_ssize_t count = hash_words(&scratch, PyList_GetItem(texts, number), 0);
        sound = count >= 0;
        if (sound && find_in_words(&known, scratch.hashes, count, (uint64_t)number, &hits) < 0) {
            PyErr_NoMemory();
            sound = 0;
        }
    }
    if (sound)
        found = PyBytes_FromStringAndSize((const char *)hits.items, (Py_ssize_t)(hits.count * sizeof(uint64_t)));
    free(hits.items);
    free_scratch(&scratch);
    PyBuffer_Release(&filter);
    PyBuffer_Release(&runs);
    PyBuffer_Release(&heads);
    PyBuffer_Release(&sizes);
    return found;
}
