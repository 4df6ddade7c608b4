/* What the filters of text/filters/ count in documents; each count is said there, in Python.

   Documents are in one text, with a newline after each; `ends` says where they end before it. Their words
   are those that `split_words` found. */

#include "words.h"

#include <stdlib.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

typedef int64_t Number;

/* Items of a document that were seen, by hashes that are kept by the number of the item. */
typedef struct {
    uint64_t *hashes;
    size_t room;
    uint32_t *slots; /* one more than the number; 0: free */
    size_t num_slots, mask;
} Seen;

/* Room for the hashes of so many items; none has been seen. */
static int clear_seen(Seen *seen, size_t count, size_t num_new) {
    size_t size = 64;
    while (size < 4 * num_new) size *= 2; /* few collisions: a branch that is foreseen */
    if (count > seen->room) {
        free(seen->hashes);
        seen->hashes = malloc(2 * count * sizeof *seen->hashes);
        seen->room = seen->hashes ? 2 * count : 0;
    }
    if (size > seen->num_slots) {
        free(seen->slots);
        seen->slots = malloc(size * sizeof *seen->slots);
        seen->num_slots = seen->slots ? size : 0;
    }
    if (count > seen->room || size > seen->num_slots) return -1;
    seen->mask = size - 1;
    memset(seen->slots, 0, size * sizeof *seen->slots);
    return 0;
}

/* The number of the first item with the hash of this one. */
static inline uint32_t first_number(Seen *seen, uint32_t number) {
    uint64_t hash = seen->hashes[number];
    size_t slot = hash & seen->mask;
    while (seen->slots[slot]) {
        if (seen->hashes[seen->slots[slot] - 1] == hash) return seen->slots[slot] - 1;
        slot = (slot + 1) & seen->mask;
    }
    seen->slots[slot] = number + 1;
    return number;
}

/* The same, of an item that has this hash. */
static inline int is_repeated(Seen *seen, uint32_t number, uint64_t hash) {
    seen->hashes[number] = hash;
    return first_number(seen, number) != number;
}

typedef struct {
    const uint8_t *at, *stop;
    const Word *words;
    size_t num_words;
} Document;

enum { TEXT, ENDS, SPLIT, SPLIT_ENDS, OUT, LEFT, NUM_BUFFERS };

/* A call: its arguments, and room to work in. */
typedef struct {
    Py_buffer held[NUM_BUFFERS];
    Rules rules;
    Py_ssize_t num_documents, num_columns;
    Seen seen;
    uint32_t *characters; /* of the words before each */
    uint32_t *groups;     /* of an n-gram: the first one that is like it */
    uint32_t *counts;     /* of n-grams in a group */
    uint32_t *live;       /* n-grams that may be repeated */
    size_t room;
    Words words, tail; /* of a line that was changed */
    uint8_t *scratch;
    size_t scratch_room;
} Call;

static Document document_of(const Call *call, Py_ssize_t number) {
    const int64_t *ends = call->held[ENDS].buf, *counts = call->held[SPLIT_ENDS].buf;
    const uint8_t *text = call->held[TEXT].buf;
    const Word *words = call->held[SPLIT].buf;
    int64_t first = number ? counts[number - 1] : 0;
    Document document = {text + (number ? ends[number - 1] + 1 : 0), text + ends[number], words ? words + first : words,
                         (size_t)(counts[number] - first)};
    return document;
}

/* Whether a document is to be looked at: of others, nothing is counted. */
static inline int is_left(const Call *call, Py_ssize_t number) { return ((const uint8_t *)call->held[LEFT].buf)[number]; }

static inline Number characters_in(const uint8_t *at, const uint8_t *stop) {
    Number count = 0;
    for (; at < stop; at++) count += (*at & 0xC0) != 0x80;
    return count;
}

static inline const uint8_t *line_stop(const uint8_t *at, const uint8_t *stop) {
    const uint8_t *found = memchr(at, '\n', (size_t)(stop - at));
    return found ? found : stop;
}

static inline int is_event(uint8_t byte) {
    return byte < ' ' || byte == '#' || byte == '.' || byte == 0xC2 || byte == 0xE2;
}

/* The next byte that may be a mark that is counted, or end a line. */
static inline const uint8_t *next_event(const uint8_t *at, const uint8_t *stop) {
#if defined(__SSE2__)
    for (; stop - at >= 16; at += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)at);
        __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1F)), bytes);
        __m128i mark = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('#')), _mm_cmpeq_epi8(bytes, _mm_set1_epi8('.')));
        __m128i wide = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8((char)0xC2)), _mm_cmpeq_epi8(bytes, _mm_set1_epi8((char)0xE2)));
        unsigned events = (unsigned)_mm_movemask_epi8(_mm_or_si128(low, _mm_or_si128(mark, wide)));
        if (events) return at + __builtin_ctz(events);
    }
#endif
    while (at < stop && !is_event(*at)) at++;
    return at;
}

/* Where the next line begins, if the one before ends at `at` by Python's `splitlines`; else NULL. */
static inline const uint8_t *line_after(const Rules *rules, const uint8_t *at, const uint8_t *stop) {
    int size;
    if (!(class_at(rules, at, stop, &size) & LINE_END)) return NULL;
    return at + size + (*at == '\r' && stop - at > 1 && at[1] == '\n');
}

static const uint8_t *skip_spaces(const Rules *rules, const uint8_t *at, const uint8_t *stop) {
    int size;
    while (at < stop && class_at(rules, at, stop, &size) & SPACE) at += size;
    return at;
}

static const uint8_t *before_spaces(const Rules *rules, const uint8_t *at, const uint8_t *stop) {
    int size;
    while (stop > at && class_before(rules, at, stop, &size) & SPACE) stop -= size;
    return stop;
}

static inline int ends_with(const uint8_t *at, const uint8_t *stop, const char *end, size_t size) {
    return (size_t)(stop - at) >= size && !memcmp(stop - size, end, size);
}

#define ELLIPSIS "\xe2\x80\xa6"
#define BULLET "\xe2\x80\xa2"

/* Columns of gopher_quality. */
enum { WORDS, REAL_WORDS, REAL_CHARACTERS, ALPHA_WORDS, STOP_WORDS, HASHES, ELLIPSES, LINES, BULLETS, ELLIPSIS_ENDS,
       QUALITY_COLUMNS };

static const char *const STOP_WORD[] = {"the", "be", "to", "of", "and", "that", "have", "with"};
enum { NUM_STOP_WORDS = sizeof STOP_WORD / sizeof *STOP_WORD };

/* A bit for each stop word: that of this word. */
static inline unsigned stop_word(const Rules *rules, const uint8_t *at, Word word) {
    if (!(rules->stop_words >> (word.hash >> 58) & 1)) return 0;
    for (int number = 0; number < NUM_STOP_WORDS; number++) {
        size_t size = strlen(STOP_WORD[number]);
        if (size == size_of_word(word) && !memcmp(at, STOP_WORD[number], size)) return 1u << number;
    }
    return 0;
}

static void count_words(const Rules *rules, Document document, Number *out) {
    unsigned stop_words = 0;
    for (size_t number = 0; number < document.num_words; number++) {
        Word word = document.words[number];
        const uint8_t *begin = document.at + word.begin, *stop = begin + size_of_word(word);
        if (word.size & PLAIN) {
            stop_words |= stop_word(rules, begin, word);
            out[REAL_WORDS]++;
            out[REAL_CHARACTERS] += size_of_word(word);
            out[ALPHA_WORDS]++;
            continue;
        }
        uint32_t any = 0, all = SYMBOL;
        Number characters = 0;
        int size;
        for (const uint8_t *at = begin; at < stop; at += size, characters++) {
            uint32_t here = class_at(rules, at, stop, &size);
            any |= here;
            all &= here;
        }
        out[ALPHA_WORDS] += (any & LETTER) != 0;
        if (all) continue;
        stop_words |= stop_word(rules, begin, word);
        out[REAL_WORDS]++;
        out[REAL_CHARACTERS] += characters;
    }
    out[WORDS] = (Number)document.num_words;
    for (; stop_words; stop_words &= stop_words - 1) out[STOP_WORDS]++;
}

static void count_line(const Rules *rules, const uint8_t *at, const uint8_t *stop, Number *out) {
    const uint8_t *first = skip_spaces(rules, at, stop), *last = before_spaces(rules, first, stop);
    out[LINES]++;
    out[BULLETS] += first < stop && (*first == '-' || (stop - first >= 3 && !memcmp(first, BULLET, 3)));
    out[ELLIPSIS_ENDS] += ends_with(first, last, "...", 3) || ends_with(first, last, ELLIPSIS, 3);
}

static void measure_quality(const Rules *rules, Document document, Number *out) {
    const uint8_t *stop = document.stop, *line = document.at, *at = line;
    count_words(rules, document, out);
    while ((at = next_event(at, stop)) < stop) {
        const uint8_t *begin = at, *next;
        if (*at == '#') {
            out[HASHES]++;
            at++;
        } else if (*at == '.') {
            while (at < stop && *at == '.') at++;
            out[ELLIPSES] += (at - begin) / 3;
        } else if ((next = line_after(rules, at, stop))) {
            count_line(rules, line, at, out);
            line = at = next;
        } else {
            out[ELLIPSES] += stop - at >= 3 && !memcmp(at, ELLIPSIS, 3);
            at++;
        }
    }
    if (line < stop) count_line(rules, line, stop, out);
}

/* Columns of gopher_repetition, then for each n from 2 the characters of the top n-gram, and then of all
   that repeat. */
enum { CHARACTERS, PARAGRAPHS, SAME_PARAGRAPHS, SAME_PARAGRAPH_CHARACTERS, TEXT_LINES, SAME_LINES,
       SAME_LINE_CHARACTERS, REPETITION_COLUMNS };

/* Texts between runs of at least `newlines` newlines: how many, how many are repeated, their characters. */
static int count_repeated(Call *call, const uint8_t *at, const uint8_t *stop, int newlines, Number out[3]) {
    size_t most = 1;
    for (const uint8_t *end = at; (end = line_stop(end, stop)) < stop; end++) most++;
    if (clear_seen(&call->seen, most, most)) return -1;
    const uint8_t *begin = at;
    for (uint32_t number = 0;; number++) {
        const uint8_t *end = at, *next = at;
        for (;;) { /* to the next run that is long enough */
            end = line_stop(next, stop);
            next = end;
            while (next < stop && *next == '\n') next++;
            if (end == stop || next - end >= newlines) break;
        }
        out[0]++;
        if (is_repeated(&call->seen, number, hash_bytes(begin, (size_t)(end - begin)))) {
            out[1]++;
            out[2] += characters_in(begin, end);
        }
        if (end == stop) return 0;
        begin = at = next;
    }
}

static int room_for_grams(Call *call, size_t count) {
    if (count < call->room) return 0;
    size_t room = 2 * count + 1;
    free(call->characters); /* one block for all four */
    call->characters = malloc(4 * room * sizeof(uint32_t));
    call->room = call->characters ? room : 0;
    if (!call->characters) return -1;
    call->groups = call->characters + room;
    call->counts = call->groups + room;
    call->live = call->counts + room;
    return 0;
}

static inline Number size_of_gram(const Call *call, size_t first, size_t n) {
    return call->characters[first + n] - call->characters[first];
}

/* Leave in `live` the n-grams that may be there twice: by a few bits of their hashes. Most are alone. */
static size_t perhaps_repeated(Call *call, size_t num_live) {
    uint32_t *live = call->live;
    const uint64_t *hashes = call->seen.hashes;
    uint8_t *marks = (uint8_t *)call->seen.slots; /* room for four a slot */
    size_t mask = 4 * (call->seen.mask + 1) - 1, left = 0;
    for (size_t at = 0; at < num_live; at++) {
        uint8_t *mark = marks + (hashes[live[at]] >> 32 & mask);
        *mark = (uint8_t)(*mark << 1 | 1);
    }
    for (size_t at = 0; at < num_live; at++) {
        live[left] = live[at];
        left += marks[hashes[live[at]] >> 32 & mask] > 1;
    }
    return left;
}

/* Group the n-grams in `live`; those that are alone leave it. Returns how many stay, and the first of those
   that are there most often. */
static size_t group_grams(Call *call, size_t num_live, uint32_t *top, uint32_t *most) {
    uint32_t *live = call->live, *counts = call->counts, *groups = call->groups;
    for (size_t at = 0; at < num_live; at++) {
        uint32_t place = live[at], group = first_number(&call->seen, place);
        groups[place] = group;
        counts[place] = 0;
        counts[group]++;
    }
    size_t left = 0;
    for (size_t at = 0; at < num_live; at++) {
        uint32_t place = live[at], count = counts[groups[place]];
        live[left] = place;
        left += count > 1;
        if (count > *most) { /* its first one is met first */
            *most = count;
            *top = place;
        }
    }
    return left;
}

/* Characters of n-grams that were there before; after one that is counted, the next begins behind it. */
static Number repeated_characters(Call *call, size_t num_live, size_t n) {
    Number total = 0;
    size_t next = 0;
    for (size_t at = 0; at < num_live; at++) call->counts[call->live[at]] = 0;
    for (size_t at = 0; at < num_live; at++) {
        uint32_t place = call->live[at], group = call->groups[place];
        if (place < next) continue;
        if (call->counts[group]) {
            total += size_of_gram(call, place, n);
            next = place + n;
        }
        call->counts[group] = 1;
    }
    return total;
}

/* An n-gram can only be repeated if both n-grams in it are that are shorter by a word. */
static size_t longer_grams(Call *call, size_t num_live) {
    size_t left = 0;
    for (size_t at = 0; at + 1 < num_live; at++)
        if (call->live[at + 1] == call->live[at] + 1) call->live[left++] = call->live[at];
    return left;
}

static int measure_grams(Call *call, Document document, Number *top, Number *repeated, size_t longest) {
    size_t count = document.num_words, num_live = count ? count - 1 : 0;
    if (room_for_grams(call, count) || clear_seen(&call->seen, count, 0)) return -1;
    uint32_t characters = 0;
    for (size_t number = 0; number < count; number++) {
        Word word = document.words[number];
        const uint8_t *begin = document.at + word.begin;
        call->seen.hashes[number] = word.hash;
        call->live[number] = (uint32_t)number;
        call->characters[number] = characters;
        characters += word.size & PLAIN ? word.size & ~PLAIN : (uint32_t)characters_in(begin, begin + word.size);
    }
    call->characters[count] = characters;
    for (size_t n = 2; n <= longest && n <= count; n++) {
        if (n > 2) num_live = longer_grams(call, num_live);
        uint64_t *hashes = call->seen.hashes;
        for (size_t at = 0; at < num_live; at++) {
            uint32_t place = call->live[at];
            hashes[place] = mix64(hashes[place] * UINT64_C(0x9E3779B97F4A7C15) + document.words[place + n - 1].hash);
        }
        uint32_t place = 0, most = 1;
        if (num_live) {
            if (clear_seen(&call->seen, count, num_live)) return -1;
            num_live = perhaps_repeated(call, num_live);
            if (clear_seen(&call->seen, count, num_live)) return -1;
            num_live = group_grams(call, num_live, &place, &most);
            repeated[n - 2] = repeated_characters(call, num_live, n);
        }
        top[n - 2] = most * (size_of_gram(call, place, n) + (Number)n - 1);
    }
    return 0;
}

static int measure_repetition(Call *call, Document document, Number *out) {
    const uint8_t *at = document.at, *stop = document.stop;
    out[CHARACTERS] = characters_in(at, stop);
    const uint8_t *first = skip_spaces(&call->rules, at, stop), *last = before_spaces(&call->rules, first, stop);
    if (count_repeated(call, first, last, 2, out + PARAGRAPHS)) return -1;
    if (count_repeated(call, at, stop, 1, out + TEXT_LINES)) return -1;
    size_t sizes = (size_t)(call->num_columns - REPETITION_COLUMNS) / 2;
    return measure_grams(call, document, out + REPETITION_COLUMNS, out + REPETITION_COLUMNS + sizes, sizes + 1);
}

/* Columns of fineweb. */
enum { FILLED_LINES, PUNCTUATED_LINES, SHORT_LINES, SAME_CHARACTERS, LINE_CHARACTERS, NEWLINES, CHUNKS,
       FINEWEB_COLUMNS };

static inline int is_visible(uint8_t byte) { return (uint8_t)(byte - '!') < '~' - '!'; }

/* Visible ASCII characters after a blank, or at the beginning: each of them begins a word. */
static Number count_chunks(const uint8_t *at, const uint8_t *stop) {
    Number count = at < stop && is_visible(*at);
#if defined(__SSE2__)
    for (; stop - at > 16; at += 16) {
        __m128i first = _mm_loadu_si128((const __m128i *)at), second = _mm_loadu_si128((const __m128i *)(at + 1));
        __m128i control = _mm_sub_epi8(first, _mm_set1_epi8('\t')), number = _mm_sub_epi8(second, _mm_set1_epi8('!'));
        __m128i blank = _mm_or_si128(_mm_cmpeq_epi8(first, _mm_set1_epi8(' ')),
                                     _mm_cmpeq_epi8(_mm_min_epu8(control, _mm_set1_epi8(4)), control));
        __m128i visible = _mm_cmpeq_epi8(_mm_min_epu8(number, _mm_set1_epi8('~' - '!' - 1)), number);
        count += __builtin_popcount((unsigned)_mm_movemask_epi8(_mm_and_si128(blank, visible)));
    }
#endif
    for (; stop - at > 1; at++) count += (at[0] == ' ' || (uint8_t)(at[0] - '\t') < 5) && is_visible(at[1]);
    return count;
}

static int measure_lines(Call *call, Document document, Number *out, Number short_line) {
    const uint8_t *at = document.at, *stop = document.stop;
    size_t most = 1;
    for (const uint8_t *end = at; (end = line_stop(end, stop)) < stop; end++) most++;
    if (clear_seen(&call->seen, most, most)) return -1;
    out[NEWLINES] = (Number)most - 1;
    out[CHUNKS] = count_chunks(at, stop);
    for (uint32_t number = 0; number < most; number++) {
        const uint8_t *end = line_stop(at, stop);
        Number characters = characters_in(at, end);
        out[LINE_CHARACTERS] += characters;
        if (skip_spaces(&call->rules, at, end) < end) {
            int size;
            out[FILLED_LINES]++;
            out[PUNCTUATED_LINES] += (class_before(&call->rules, at, end, &size) & TERMINAL) != 0;
            out[SHORT_LINES] += characters <= short_line;
            if (is_repeated(&call->seen, number, hash_bytes(at, (size_t)(end - at)))) out[SAME_CHARACTERS] += characters;
        }
        at = end + 1;
    }
    return 0;
}

/* Whether the words are in their documents. */
static int are_words(const Call *call) {
    const int64_t *counts = call->held[SPLIT_ENDS].buf;
    int64_t num_words = call->held[SPLIT].len / (Py_ssize_t)sizeof(Word), first = 0;
    if (call->held[SPLIT_ENDS].len != call->held[ENDS].len) return 0;
    for (Py_ssize_t number = 0; number < call->num_documents; number++) {
        if (counts[number] < first || counts[number] > num_words) return 0;
        first = counts[number];
        Document document = document_of(call, number);
        for (size_t word = 0; word < document.num_words; word++)
            if ((int64_t)document.words[word].begin + size_of_word(document.words[word]) > document.stop - document.at)
                return 0;
    }
    return 1;
}

/* Returns 0, or -1 with an error; `step` columns at a time may be added to the least. */
static int open_call(Call *call, PyObject *tables, Py_ssize_t least, Py_ssize_t step) {
    call->num_documents = call->held[ENDS].len / (Py_ssize_t)sizeof(int64_t);
    Py_ssize_t numbers = call->held[OUT].len / (Py_ssize_t)sizeof(Number);
    call->num_columns = call->num_documents ? numbers / call->num_documents : least;
    int sound = call->num_columns >= least && (call->num_columns == least || (step && (call->num_columns - least) % step == 0)) &&
                call->held[OUT].len == call->num_documents * call->num_columns * (Py_ssize_t)sizeof(Number) &&
                call->held[LEFT].len == call->num_documents &&
                are_documents(call->held + TEXT, call->held + ENDS) && are_words(call);
    if (sound) {
        memset(call->held[OUT].buf, 0, (size_t)call->held[OUT].len);
        if (open_rules(tables, &call->rules)) return -1;
        for (int number = 0; number < NUM_STOP_WORDS; number++) add_stop_word(&call->rules, STOP_WORD[number]);
        return 0;
    }
    PyErr_SetString(PyExc_ValueError, "the arrays are not those of documents and their words");
    return -1;
}

static void close_call(Call *call) {
    close_rules(&call->rules);
    free(call->seen.hashes);
    free(call->seen.slots);
    free(call->characters);
    free(call->words.items);
    free(call->tail.items);
    free(call->scratch);
}

static void release(Call *call) {
    for (int buffer = 0; buffer < NUM_BUFFERS; buffer++) PyBuffer_Release(call->held + buffer);
}

enum { QUALITY, REPETITION, FINEWEB };

static int measure(Call *call, int what, Number short_line) {
    int failed = 0;
    for (Py_ssize_t number = 0; number < call->num_documents && !failed; number++) {
        if (!is_left(call, number)) continue;
        Document document = document_of(call, number);
        Number *out = (Number *)call->held[OUT].buf + number * call->num_columns;
        if (what == QUALITY)
            measure_quality(&call->rules, document, out);
        else
            failed = what == REPETITION ? measure_repetition(call, document, out)
                                        : measure_lines(call, document, out, short_line);
    }
    return failed;
}

/* measure_texts(text, ends, words, word_ends, out, left, tables, what, short_line): the counts of each
   document that is `left`, int64, in the columns of quality (`what` 0), repetition (1) or lines (2). */
PyObject *measure_texts(PyObject *self, PyObject *arguments) {
    static const Py_ssize_t COLUMNS[] = {QUALITY_COLUMNS, REPETITION_COLUMNS, FINEWEB_COLUMNS};
    Call call;
    PyObject *tables;
    int what, failed = 1;
    long long short_line;
    (void)self;
    memset(&call, 0, sizeof call);
    if (!PyArg_ParseTuple(arguments, "y*y*y*y*w*y*OiL", call.held, call.held + 1, call.held + 2, call.held + 3, call.held + 4,
                          call.held + 5, &tables, &what, &short_line))
        return NULL;
    if (what < QUALITY || what > FINEWEB) {
        PyErr_SetString(PyExc_ValueError, "there are no such counts");
    } else if (!open_call(&call, tables, COLUMNS[what], what == REPETITION ? 2 : 0)) {
        Py_BEGIN_ALLOW_THREADS;
        failed = measure(&call, what, short_line);
        Py_END_ALLOW_THREADS;
        if (failed) PyErr_NoMemory();
        close_call(&call);
    }
    release(&call);
    if (failed) return NULL;
    Py_RETURN_NONE;
}

/* Columns of c4: sentences that are left, why a document goes, the lines that go, whether the text is another. */
enum { C4_SENTENCES, C4_LOREM_IPSUM, C4_CURLY_BRACKET, C4_LONG_WORD, C4_NO_END, C4_FEW_WORDS, C4_JAVASCRIPT, C4_POLICY,
       C4_CHANGED, C4_COLUMNS };

enum { CITATIONS = 1, NEEDS_END = 2, LOREM_IPSUM = 4, JAVASCRIPT = 8, CURLY_BRACKET = 16, POLICY = 32 };

typedef struct {
    Number most_characters, least_words; /* of a word; of a line; -1: no matter */
    int flags;
} LineRules;

/* Whether the ASCII text `phrase` is around `at`, where its byte `anchor` is, in any case. */
static inline int is_phrase(const uint8_t *begin, const uint8_t *at, const uint8_t *stop, const char *phrase, int anchor) {
    Py_ssize_t size = (Py_ssize_t)strlen(phrase);
    if (at - begin < anchor || stop - at < size - anchor) return 0;
    for (const uint8_t *byte = at - anchor; *phrase; phrase++, byte++)
        if ((*byte >= 'A' && *byte <= 'Z' ? *byte | 0x20 : *byte) != (uint8_t)*phrase) return 0;
    return 1;
}

static inline int phrase_at(const uint8_t *begin, const uint8_t *at, const uint8_t *stop) {
    switch (*at | 0x20) {
    case '{': return *at == '{' ? CURLY_BRACKET : 0;
    case 'j': return is_phrase(begin, at, stop, "javascript", 0) ? JAVASCRIPT : 0;
    case 'p': return is_phrase(begin, at, stop, "lorem ipsum", 7) ? LOREM_IPSUM : 0;
    case 'v': return is_phrase(begin, at, stop, "privacy policy", 3) ? POLICY : 0;
    case 'f': return is_phrase(begin, at, stop, "terms of use", 7) ? POLICY : 0;
    case 'k':
        return is_phrase(begin, at, stop, "cookie policy", 3) || is_phrase(begin, at, stop, "uses cookies", 8) ||
                       is_phrase(begin, at, stop, "use of cookies", 10) || is_phrase(begin, at, stop, "use cookies", 7)
                   ? POLICY
                   : 0;
    default: return 0;
    }
}

#if defined(__SSE2__)
#define PAIR(a, b) _mm_and_si128(_mm_cmpeq_epi8(first, _mm_set1_epi8(a)), _mm_cmpeq_epi8(second, _mm_set1_epi8(b)))
#endif

/* What a line holds: LOREM_IPSUM, JAVASCRIPT, CURLY_BRACKET, POLICY. Each is looked for by two letters. */
static int find_phrases(const uint8_t *begin, const uint8_t *stop) {
    int found = 0;
    const uint8_t *at = begin;
#if defined(__SSE2__)
    const __m128i small = _mm_set1_epi8(0x20);
    for (; stop - at > 16; at += 16) {
        __m128i first = _mm_or_si128(_mm_loadu_si128((const __m128i *)at), small);
        __m128i second = _mm_or_si128(_mm_loadu_si128((const __m128i *)(at + 1)), small);
        __m128i some = _mm_or_si128(_mm_or_si128(PAIR('j', 'a'), PAIR('p', 's')), _mm_or_si128(PAIR('v', 'a'), PAIR('f', ' ')));
        some = _mm_or_si128(some, _mm_or_si128(PAIR('k', 'i'), _mm_cmpeq_epi8(first, _mm_set1_epi8('{'))));
        for (unsigned places = (unsigned)_mm_movemask_epi8(some); places; places &= places - 1)
            found |= phrase_at(begin, at + __builtin_ctz(places), stop);
    }
#endif
    for (; at < stop; at++) found |= phrase_at(begin, at, stop);
    return found;
}

/* Bytes of a citation at `at`, such as [12]; 0 for none. */
static size_t citation_size(const uint8_t *at, const uint8_t *stop) {
    static const char *const NAMES[] = {"[edit]", "[citation needed]"};
    for (int name = 0; name < 2; name++) {
        size_t size = strlen(NAMES[name]);
        if ((size_t)(stop - at) >= size && !memcmp(at, NAMES[name], size)) return size;
    }
    const uint8_t *digit = at + 1;
    while (digit < stop && *digit >= '0' && *digit <= '9') digit++;
    return digit < stop && *digit == ']' ? (size_t)(digit + 1 - at) : 0;
}

/* Point `*at` and `*stop` to the line without its citations. */
static int without_citations(Call *call, const uint8_t **at, const uint8_t **stop) {
    size_t size = (size_t)(*stop - *at);
    if (!size || !memchr(*at, '[', size)) return 0;
    if (size > call->scratch_room) {
        free(call->scratch);
        call->scratch = malloc(2 * size);
        call->scratch_room = call->scratch ? 2 * size : 0;
        if (!call->scratch) return -1;
    }
    uint8_t *out = call->scratch;
    for (const uint8_t *byte = *at; byte < *stop;) {
        size_t citation = *byte == '[' ? citation_size(byte, *stop) : 0;
        if (citation)
            byte += citation;
        else
            *out++ = *byte++;
    }
    *at = call->scratch;
    *stop = out;
    return 0;
}

/* Whether a word between white space has more characters than `most`. */
static int has_long_word(const Rules *rules, const uint8_t *at, const uint8_t *stop, Number most) {
    int size;
    while (stop - at > most) {
        const uint8_t *blank = at + most; /* none can be too long before it */
        while (blank > at && *blank != ' ') blank--;
        if (blank > at) {
            at = blank;
            continue;
        }
        const uint8_t *begin = at = skip_spaces(rules, at, stop);
        while (at < stop && !(class_at(rules, at, stop, &size) & SPACE)) at += size;
        if (at - begin > most && characters_in(begin, at) > most) return 1;
    }
    return 0;
}

/* Whether there are so many words between white space. */
static int has_words(const Rules *rules, const uint8_t *at, const uint8_t *stop, Number least) {
    int size;
    for (Number count = 0; count < least; count++) {
        if ((at = skip_spaces(rules, at, stop)) >= stop) return 0;
        while (at < stop && !(class_at(rules, at, stop, &size) & SPACE)) at += size;
    }
    return 1;
}

static int ends_sentence(const uint8_t *at, const uint8_t *stop) {
    return stop > at && memchr(".?!\"'", stop[-1], 5) && !ends_with(at, stop, "...", 3);
}

/* Sentences of a line: after a word that is a full stop, one that is no punctuation begins the next. */
static Number count_sentences(const Rules *rules, const uint8_t *text, const Word *words, size_t num_words) {
    Number count = num_words > 0;
    int is_over = 0;
    for (size_t number = 0; number < num_words; number++) {
        Word word = words[number];
        uint32_t all = word.size & PLAIN ? 0 : PUNCTUATION, here = 0;
        const uint8_t *at = text + word.begin, *stop = at + size_of_word(word);
        int size = 0;
        for (; at < stop && all; at += size) all &= here = class_at(rules, at, stop, &size);
        if (all && (uint32_t)size == word.size && here & PERIOD) {
            is_over = 1;
        } else if (is_over && !all) {
            count++;
            is_over = 0;
        }
    }
    return count;
}

/* Sentences of a line of the document; its words are behind `*word`. */
static Number sentences_of(const Rules *rules, Document document, const uint8_t *at, const uint8_t *stop, size_t *word) {
    while (*word < document.num_words && document.at + document.words[*word].begin < at) ++*word;
    size_t first = *word;
    while (*word < document.num_words && document.at + document.words[*word].begin < stop) ++*word;
    return count_sentences(rules, document.at, document.words + first, *word - first);
}

static int is_long_word(const Rules *rules, const LineRules *line_rules, const uint8_t *at, const uint8_t *stop) {
    return line_rules->most_characters >= 0 && has_long_word(rules, at, stop, line_rules->most_characters);
}

/* The column of the rule that drops this line or its document; -1 if it stays, -2 without memory. */
static int judge_line(Call *call, const LineRules *rules, const uint8_t **at, const uint8_t **stop) {
    const uint8_t *begin = *at, *end = *stop;
    if (is_long_word(&call->rules, rules, begin, end)) return C4_LONG_WORD;
    if (rules->flags & CITATIONS && without_citations(call, at, stop)) return -2;
    if (rules->flags & NEEDS_END && !ends_sentence(*at, *stop)) return C4_NO_END;
    if (!has_words(&call->rules, begin, end, rules->least_words)) return C4_FEW_WORDS;
    int found = find_phrases(*at, *stop) & rules->flags;
    if (found & LOREM_IPSUM) return C4_LOREM_IPSUM;
    if (found & JAVASCRIPT) return C4_JAVASCRIPT;
    if (found & CURLY_BRACKET) return C4_CURLY_BRACKET;
    return found & POLICY ? C4_POLICY : -1;
}

static const uint8_t *any_line_stop(const Rules *rules, const uint8_t *at, const uint8_t *stop, const uint8_t **next) {
    for (; (at = next_event(at, stop)) < stop; at++)
        if ((*next = line_after(rules, at, stop))) return at;
    return *next = stop;
}

/* Write what stays of a document; returns its bytes, or -1. */
static int64_t clean_document(Call *call, const LineRules *line_rules, Document document, uint8_t *out, Number *counts) {
    const Rules *rules = &call->rules;
    uint8_t *place = out;
    size_t word = 0;
    for (const uint8_t *at = document.at, *next; at < document.stop; at = next) {
        const uint8_t *end = any_line_stop(rules, at, document.stop, &next);
        const uint8_t *begin = skip_spaces(rules, at, end), *line = begin;
        end = before_spaces(rules, line, end);
        int why = judge_line(call, line_rules, &line, &end);
        if (why == -2) return -1;
        if (why >= 0) counts[why]++;
        if (why == C4_LOREM_IPSUM || why == C4_CURLY_BRACKET) return 0;
        if (why >= 0) continue;
        if (line == begin) {
            counts[C4_SENTENCES] += sentences_of(rules, document, line, end, &word);
        } else { /* without its citations */
            call->words.count = 0;
            split_text(rules, line, end, &call->words, &call->tail);
            if (call->words.failed) return -1;
            counts[C4_SENTENCES] += count_sentences(rules, line, call->words.items, call->words.count);
        }
        if (counts[C4_CHANGED]++) *place++ = '\n'; /* lines so far */
        memcpy(place, line, (size_t)(end - line));
        place += end - line;
    }
    const uint8_t *first = skip_spaces(rules, out, place), *last = before_spaces(rules, first, place);
    size_t size = (size_t)(last - first);
    memmove(out, first, size);
    counts[C4_CHANGED] = size != (size_t)(document.stop - document.at) || memcmp(out, document.at, size);
    return (int64_t)size;
}

/* clean_lines(text, ends, words, word_ends, out, left, tables, flags, most_characters, least_words): the
   documents after the rules of c4 for lines, with a newline after each, and their ends; their counts are in
   `out`. Of those that are not `left` nothing stays. */
PyObject *clean_lines(PyObject *self, PyObject *arguments) {
    Call call;
    LineRules rules;
    PyObject *tables, *found = NULL;
    long long most_characters, least_words;
    (void)self;
    memset(&call, 0, sizeof call);
    if (!PyArg_ParseTuple(arguments, "y*y*y*y*w*y*OiLL", call.held, call.held + 1, call.held + 2, call.held + 3,
                          call.held + 4, call.held + 5, &tables, &rules.flags, &most_characters, &least_words))
        return NULL;
    rules.most_characters = most_characters;
    rules.least_words = least_words;
    if (!open_call(&call, tables, C4_COLUMNS, 0)) {
        uint8_t *text = malloc((size_t)(call.held[TEXT].len + call.num_documents) + 1);
        int64_t *ends = malloc((size_t)call.held[ENDS].len + 1), place = text && ends ? 0 : -1;
        Py_BEGIN_ALLOW_THREADS;
        for (Py_ssize_t number = 0; number < call.num_documents && place >= 0; number++) {
            Number *counts = (Number *)call.held[OUT].buf + number * call.num_columns;
            int64_t size =
                is_left(&call, number) ? clean_document(&call, &rules, document_of(&call, number), text + place, counts) : 0;
            place = size < 0 ? -1 : place + size;
            if (place < 0) break;
            ends[number] = place;
            text[place++] = '\n';
        }
        Py_END_ALLOW_THREADS;
        if (place >= 0)
            found = Py_BuildValue("y#y#", (char *)text, (Py_ssize_t)place, (char *)ends, call.held[ENDS].len);
        else
            PyErr_NoMemory();
        free(text);
        free(ends);
        close_call(&call);
    }
    release(&call);
    return found;
}
