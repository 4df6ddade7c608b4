/* What the filters of text/filters/ count in documents; each count is said there, in Python.

   Documents are in one text, with a newline after each; `ends` says where they end before it. */

#include "words.h"

#include <stdlib.h>
#include <string.h>

typedef int64_t Number;

/* Keys that were seen in a document, and the number that each was given first. */
typedef struct {
    uint64_t *keys;
    uint32_t *numbers; /* one more than the number; 0: free */
    size_t room, mask;
} Seen;

static int clear_seen(Seen *seen, size_t count) {
    size_t size = 64;
    while (size < 2 * count) size *= 2;
    if (size > seen->room) {
        free(seen->keys);
        free(seen->numbers);
        seen->keys = malloc(size * sizeof *seen->keys);
        seen->numbers = malloc(size * sizeof *seen->numbers);
        seen->room = seen->keys && seen->numbers ? size : 0;
        if (!seen->room) return -1;
    }
    seen->mask = size - 1;
    memset(seen->numbers, 0, size * sizeof *seen->numbers);
    return 0;
}

/* The number of a key: `number` if it is new. */
static inline uint32_t first_number(Seen *seen, uint64_t key, uint32_t number) {
    size_t slot = key & seen->mask;
    while (seen->numbers[slot]) {
        if (seen->keys[slot] == key) return seen->numbers[slot] - 1;
        slot = (slot + 1) & seen->mask;
    }
    seen->keys[slot] = key;
    seen->numbers[slot] = number + 1;
    return number;
}

typedef struct {
    uint64_t hash;
    uint32_t characters, group; /* n-grams that are alike are in the group of the first one */
} Gram;

/* A call: its arguments, and room to work in. */
typedef struct {
    Rules rules;
    const uint8_t *text;
    const int64_t *ends;
    Py_ssize_t num_documents, num_columns;
    Number *out;
    Words words, tail;
    Seen seen;
    Gram *grams;
    uint32_t *live, *counts;
    size_t gram_room;
    uint8_t *scratch; /* of one line */
    size_t scratch_room;
    Py_buffer held[3];
} Call;

static inline Number characters_in(const uint8_t *at, const uint8_t *stop) {
    Number count = 0;
    for (; at < stop; at++) count += (*at & 0xC0) != 0x80;
    return count;
}

static inline const uint8_t *line_stop(const uint8_t *at, const uint8_t *stop) {
    const uint8_t *found = memchr(at, '\n', (size_t)(stop - at));
    return found ? found : stop;
}

/* Where a line ends by Python's `splitlines`, and where the next one begins. */
static const uint8_t *any_line_stop(const Rules *rules, const uint8_t *at, const uint8_t *stop, const uint8_t **next) {
    int size;
    for (; at < stop; at += size) {
        size = 1;
        if (*at >= ' ' && *at != 0xC2 && *at != 0xE2) continue;
        if (!(class_at(rules, at, stop, &size) & LINE_END)) continue;
        *next = at + size + (*at == '\r' && stop - at > 1 && at[1] == '\n');
        return at;
    }
    *next = stop;
    return stop;
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

static int split_document(Call *call, const uint8_t *at, const uint8_t *stop) {
    call->words.count = 0;
    split_text(&call->rules, at, stop, &call->words, &call->tail);
    return call->words.failed ? -1 : 0;
}

/* Columns of gopher_quality. */
enum { WORDS, REAL_WORDS, REAL_CHARACTERS, ALPHA_WORDS, STOP_WORDS, HASHES, ELLIPSES, LINES, BULLETS, ELLIPSIS_ENDS,
       QUALITY_COLUMNS };

static unsigned stop_word(const uint8_t *at, uint32_t size) {
    switch (size) {
    case 2: return !memcmp(at, "be", 2) ? 1 : !memcmp(at, "to", 2) ? 2 : !memcmp(at, "of", 2) ? 4 : 0;
    case 3: return !memcmp(at, "the", 3) ? 8 : !memcmp(at, "and", 3) ? 16 : 0;
    case 4: return !memcmp(at, "that", 4) ? 32 : !memcmp(at, "have", 4) ? 64 : !memcmp(at, "with", 4) ? 128 : 0;
    default: return 0;
    }
}

static void count_words(const Call *call, Number *out) {
    unsigned stop_words = 0;
    for (size_t number = 0; number < call->words.count; number++) {
        Word word = call->words.items[number];
        if (word.is_plain) {
            stop_words |= stop_word(word.at, word.size);
            out[REAL_WORDS]++;
            out[REAL_CHARACTERS] += word.size;
            out[ALPHA_WORDS]++;
            continue;
        }
        uint32_t any = 0, all = SYMBOL;
        const uint8_t *stop = word.at + word.size;
        Number characters = 0;
        int size;
        for (const uint8_t *at = word.at; at < stop; at += size, characters++) {
            uint32_t here = class_at(&call->rules, at, stop, &size);
            any |= here;
            all &= here;
        }
        out[ALPHA_WORDS] += (any & LETTER) != 0;
        if (all) continue;
        stop_words |= stop_word(word.at, word.size);
        out[REAL_WORDS]++;
        out[REAL_CHARACTERS] += characters;
    }
    out[WORDS] = (Number)call->words.count;
    for (; stop_words; stop_words &= stop_words - 1) out[STOP_WORDS]++;
}

static void count_marks(const uint8_t *at, const uint8_t *stop, Number *out) {
    while (at < stop) {
        if (*at == '.') {
            const uint8_t *begin = at;
            while (at < stop && *at == '.') at++;
            out[ELLIPSES] += (at - begin) / 3;
            continue;
        }
        out[HASHES] += *at == '#';
        out[ELLIPSES] += *at == 0xE2 && stop - at >= 3 && !memcmp(at, ELLIPSIS, 3);
        at++;
    }
}

static int measure_quality(Call *call, const uint8_t *at, const uint8_t *stop, Number *out) {
    if (split_document(call, at, stop)) return -1;
    count_words(call, out);
    count_marks(at, stop, out);
    while (at < stop) {
        const uint8_t *next, *end = any_line_stop(&call->rules, at, stop, &next);
        const uint8_t *first = skip_spaces(&call->rules, at, end), *last = before_spaces(&call->rules, first, end);
        out[LINES]++;
        out[BULLETS] += first < end && (*first == '-' || (end - first >= 3 && !memcmp(first, BULLET, 3)));
        out[ELLIPSIS_ENDS] += ends_with(first, last, "...", 3) || ends_with(first, last, ELLIPSIS, 3);
        at = next;
    }
    return 0;
}

/* Columns of gopher_repetition, then for each n from 2 the characters of the top n-gram, and then of all
   that repeat. */
enum { CHARACTERS, PARAGRAPHS, SAME_PARAGRAPHS, SAME_PARAGRAPH_CHARACTERS, TEXT_LINES, SAME_LINES,
       SAME_LINE_CHARACTERS, REPETITION_COLUMNS };

/* Texts between runs of at least `newlines` newlines: how many, how many are repeated, their characters. */
static int count_repeated(Call *call, const uint8_t *at, const uint8_t *stop, int newlines, Number out[3]) {
    size_t most = 1;
    for (const uint8_t *end = at; (end = line_stop(end, stop)) < stop; end++) most++;
    if (clear_seen(&call->seen, most)) return -1;
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
        if (first_number(&call->seen, hash_bytes(begin, (size_t)(end - begin)), number) != number) {
            out[1]++;
            out[2] += characters_in(begin, end);
        }
        if (end == stop) return 0;
        begin = at = next;
    }
}

static int room_for_grams(Call *call, size_t count) {
    if (count <= call->gram_room) return 0;
    size_t room = 2 * count;
    free(call->grams);
    free(call->live);
    free(call->counts);
    call->grams = malloc((room + 1) * sizeof *call->grams);
    call->live = malloc(room * sizeof *call->live);
    call->counts = malloc(room * sizeof *call->counts);
    call->gram_room = call->grams && call->live && call->counts ? room : 0;
    return call->gram_room ? 0 : -1;
}

#define ALONE UINT32_MAX

/* Sum of the characters of n words, by the sums before each. */
static inline Number size_of(const Call *call, size_t first, size_t n) {
    return call->grams[first + n].characters - call->grams[first].characters;
}

/* Group the n-grams that may be repeated, those in `live`; those that are not leave it. Returns how many
   stay, and in `*top` the first of those that are there most often. */
static size_t group_grams(Call *call, size_t num_live, uint32_t *top, uint32_t *most) {
    Gram *grams = call->grams;
    uint32_t *live = call->live, *counts = call->counts;
    for (size_t at = 0; at < num_live; at++) {
        uint32_t place = live[at], group = first_number(&call->seen, grams[place].hash, place);
        grams[place].group = group;
        counts[place] = 0;
        counts[group]++;
    }
    size_t left = 0;
    for (size_t at = 0; at < num_live; at++) {
        uint32_t place = live[at], group = grams[place].group;
        if (counts[group] < 2) {
            grams[place].group = ALONE;
            continue;
        }
        if (group == place && counts[place] > *most) {
            *most = counts[place];
            *top = place;
        }
        live[left++] = place;
    }
    return left;
}

/* Characters of n-grams that were there before, none counted twice; one that is counted is left behind. */
static Number repeated_characters(Call *call, size_t num_live, size_t n) {
    Number total = 0;
    size_t next = 0;
    for (size_t at = 0; at < num_live; at++) call->counts[call->grams[call->live[at]].group] = 0;
    for (size_t at = 0; at < num_live; at++) {
        uint32_t place = call->live[at], group = call->grams[place].group;
        if (place < next) continue;
        if (call->counts[group]) {
            total += size_of(call, place, n);
            next = place + n;
        }
        call->counts[group] = 1;
    }
    return total;
}

static int measure_grams(Call *call, Number *top, Number *repeated, size_t longest) {
    size_t count = call->words.count, num_live = 0;
    if (room_for_grams(call, count)) return -1;
    uint32_t characters = 0;
    for (size_t number = 0; number < count; number++) {
        Word word = call->words.items[number];
        Gram gram = {hash_bytes(word.at, word.size), characters, 0};
        call->grams[number] = gram;
        characters += word.is_plain ? word.size : (uint32_t)characters_in(word.at, word.at + word.size);
        if (number) call->live[num_live++] = (uint32_t)number - 1;
    }
    if (call->grams) call->grams[count].characters = characters;
    for (size_t n = 2; n <= longest && n <= count; n++) {
        if (n > 2) { /* it can only be repeated if both n-grams in it are that are shorter by a word */
            size_t left = 0;
            for (size_t at = 0; at + 1 < num_live; at++)
                if (call->live[at + 1] == call->live[at] + 1) call->live[left++] = call->live[at];
            num_live = left;
        }
        for (size_t at = 0; at < num_live; at++) {
            uint32_t place = call->live[at];
            uint64_t last = n == 2 ? call->grams[place + 1].hash : hash_bytes(call->words.items[place + n - 1].at, call->words.items[place + n - 1].size);
            call->grams[place].hash = mix64(call->grams[place].hash * UINT64_C(0x9E3779B97F4A7C15) + last);
        }
        uint32_t place = 0, most = 1;
        if (clear_seen(&call->seen, num_live)) return -1;
        num_live = group_grams(call, num_live, &place, &most);
        top[n - 2] = most * (size_of(call, place, n) + (Number)n - 1);
        repeated[n - 2] = repeated_characters(call, num_live, n);
    }
    return 0;
}

static int measure_repetition(Call *call, const uint8_t *at, const uint8_t *stop, Number *out) {
    out[CHARACTERS] = characters_in(at, stop);
    const uint8_t *first = skip_spaces(&call->rules, at, stop), *last = before_spaces(&call->rules, first, stop);
    if (count_repeated(call, first, last, 2, out + PARAGRAPHS)) return -1;
    if (count_repeated(call, at, stop, 1, out + TEXT_LINES)) return -1;
    if (split_document(call, at, stop)) return -1;
    size_t sizes = (size_t)(call->num_columns - REPETITION_COLUMNS) / 2;
    return measure_grams(call, out + REPETITION_COLUMNS, out + REPETITION_COLUMNS + sizes, sizes + 1);
}

/* Columns of fineweb; the first one holds the most characters of a short line when it is called. */
enum { FILLED_LINES, PUNCTUATED_LINES, SHORT_LINES, SAME_CHARACTERS, LINE_CHARACTERS, NEWLINES, FINEWEB_WORDS,
       FINEWEB_COLUMNS };

static int measure_lines(Call *call, const uint8_t *at, const uint8_t *stop, Number *out, Number short_line) {
    size_t most = 1;
    for (const uint8_t *end = at; (end = line_stop(end, stop)) < stop; end++) most++;
    if (clear_seen(&call->seen, most) || split_document(call, at, stop)) return -1;
    out[NEWLINES] = (Number)most - 1;
    out[FINEWEB_WORDS] = (Number)call->words.count;
    for (uint32_t number = 0; number < most; number++) {
        const uint8_t *end = line_stop(at, stop);
        Number characters = characters_in(at, end);
        out[LINE_CHARACTERS] += characters;
        if (skip_spaces(&call->rules, at, end) < end) {
            int size;
            out[FILLED_LINES]++;
            out[PUNCTUATED_LINES] += (class_before(&call->rules, at, end, &size) & TERMINAL) != 0;
            out[SHORT_LINES] += characters <= short_line;
            uint64_t hash = hash_bytes(at, (size_t)(end - at));
            if (first_number(&call->seen, hash, number) != number) out[SAME_CHARACTERS] += characters;
        }
        at = end + 1;
    }
    return 0;
}

static int is_sound(const Call *call, Py_ssize_t text_size) {
    int64_t begin = 0;
    for (Py_ssize_t document = 0; document < call->num_documents; document++) {
        int64_t end = call->ends[document];
        if (end < begin || end > text_size || end - begin > INT32_MAX) return 0;
        begin = end + 1;
    }
    return 1;
}

static int open_call(Call *call, PyObject *tables, Py_ssize_t least, Py_ssize_t factor) {
    if (open_rules(tables, &call->rules)) return -1;
    call->text = call->held[0].buf;
    call->ends = call->held[1].buf;
    call->out = call->held[2].buf;
    call->num_documents = call->held[1].len / (Py_ssize_t)sizeof(int64_t);
    Py_ssize_t numbers = call->held[2].len / (Py_ssize_t)sizeof(Number);
    call->num_columns = call->num_documents ? numbers / call->num_documents : least;
    if (call->num_columns >= least && call->num_columns < 1000 && (call->num_columns - least) % factor == 0 &&
        call->held[2].len == call->num_documents * call->num_columns * (Py_ssize_t)sizeof(Number) &&
        is_sound(call, call->held[0].len))
        return 0;
    close_rules(&call->rules);
    PyErr_SetString(PyExc_ValueError, "the arrays are not those of documents");
    return -1;
}

static void close_call(Call *call) {
    close_rules(&call->rules);
    free(call->words.items);
    free(call->tail.items);
    free(call->seen.keys);
    free(call->seen.numbers);
    free(call->grams);
    free(call->live);
    free(call->counts);
    free(call->scratch);
}

enum { QUALITY, REPETITION, FINEWEB };

static int measure(Call *call, int what, Number short_line) {
    int failed = 0;
    memset(call->out, 0, (size_t)call->held[2].len);
    for (Py_ssize_t document = 0; document < call->num_documents && !failed; document++) {
        const uint8_t *at = call->text + (document ? call->ends[document - 1] + 1 : 0);
        const uint8_t *stop = call->text + call->ends[document];
        Number *out = call->out + document * call->num_columns;
        failed = what == QUALITY      ? measure_quality(call, at, stop, out)
                 : what == REPETITION ? measure_repetition(call, at, stop, out)
                                      : measure_lines(call, at, stop, out, short_line);
    }
    return failed;
}

/* measure_texts(text, ends, out, tables, what, short_line): the counts of each document, int64, in the
   columns of quality (`what` 0), repetition (1) or lines (2). */
PyObject *measure_texts(PyObject *self, PyObject *arguments) {
    static const Py_ssize_t COLUMNS[] = {QUALITY_COLUMNS, REPETITION_COLUMNS, FINEWEB_COLUMNS};
    Call call;
    PyObject *tables;
    int what, failed = 1;
    long long short_line;
    (void)self;
    memset(&call, 0, sizeof call);
    if (!PyArg_ParseTuple(arguments, "y*y*w*OiL", call.held, call.held + 1, call.held + 2, &tables, &what, &short_line))
        return NULL;
    if (what < QUALITY || what > FINEWEB) {
        PyErr_SetString(PyExc_ValueError, "there are no such counts");
    } else if (!open_call(&call, tables, COLUMNS[what], what == REPETITION ? 2 : 1000)) {
        Py_BEGIN_ALLOW_THREADS;
        failed = measure(&call, what, short_line);
        Py_END_ALLOW_THREADS;
        if (failed) PyErr_NoMemory();
        close_call(&call);
    }
    for (int buffer = 0; buffer < 3; buffer++) PyBuffer_Release(call.held + buffer);
    if (failed) return NULL;
    Py_RETURN_NONE;
}

/* Columns of c4, the lines that it drops in the order of its rules, and what it does with a document. */
enum { C4_SENTENCES, C4_LOREM_IPSUM, C4_CURLY_BRACKET, C4_LONG_WORD, C4_NO_END, C4_FEW_WORDS, C4_JAVASCRIPT, C4_POLICY,
       C4_LINES, C4_COLUMNS };

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

/* What a line holds: LOREM_IPSUM, JAVASCRIPT, CURLY_BRACKET, POLICY. */
static int find_phrases(const uint8_t *begin, const uint8_t *stop) {
    int found = 0;
    for (const uint8_t *at = begin; at < stop; at++) {
        switch (*at) { /* a rare letter of each */
        case '{': found |= CURLY_BRACKET; break;
        case 'j': case 'J': found |= is_phrase(begin, at, stop, "javascript", 0) ? JAVASCRIPT : 0; break;
        case 'p': case 'P': found |= is_phrase(begin, at, stop, "lorem ipsum", 7) ? LOREM_IPSUM : 0; break;
        case 'v': case 'V': found |= is_phrase(begin, at, stop, "privacy policy", 3) ? POLICY : 0; break;
        case 'f': case 'F': found |= is_phrase(begin, at, stop, "terms of use", 7) ? POLICY : 0; break;
        case 'k': case 'K':
            if (is_phrase(begin, at, stop, "cookie policy", 3) || is_phrase(begin, at, stop, "uses cookies", 8) ||
                is_phrase(begin, at, stop, "use of cookies", 10) || is_phrase(begin, at, stop, "use cookies", 7))
                found |= POLICY;
            break;
        default: break;
        }
    }
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

/* Count the words between white space; returns whether one is too long. */
static int count_chunks(const Rules *rules, const uint8_t *at, const uint8_t *stop, Number most, Number *count) {
    int size;
    while ((at = skip_spaces(rules, at, stop)) < stop) {
        const uint8_t *begin = at;
        while (at < stop && !(class_at(rules, at, stop, &size) & SPACE)) at += size;
        ++*count;
        if (most >= 0 && at - begin > most && characters_in(begin, at) > most) return 1;
    }
    return 0;
}

static int ends_sentence(const uint8_t *at, const uint8_t *stop) {
    return stop > at && memchr(".?!\"'", stop[-1], 5) && !ends_with(at, stop, "...", 3);
}

/* Sentences of a line: after a word that is a full stop, one that is no punctuation begins the next. */
static Number count_sentences(const Call *call) {
    Number count = call->words.count > 0;
    int is_over = 0;
    for (size_t number = 0; number < call->words.count; number++) {
        Word word = call->words.items[number];
        const uint8_t *stop = word.at + word.size;
        uint32_t all = PUNCTUATION, here = 0;
        int size = 0;
        for (const uint8_t *at = word.at; at < stop && all; at += size) all &= here = class_at(&call->rules, at, stop, &size);
        if ((uint32_t)size == word.size && here & PERIOD) {
            is_over = 1;
        } else if (is_over && !all) {
            count++;
            is_over = 0;
        }
    }
    return count;
}

/* The column of the rule that drops this line or its document; -1 if it stays, -2 without memory. */
static int judge_line(Call *call, const LineRules *rules, const uint8_t **at, const uint8_t **stop) {
    Number words = 0;
    if (count_chunks(&call->rules, *at, *stop, rules->most_characters, &words)) return C4_LONG_WORD;
    if (rules->flags & CITATIONS && without_citations(call, at, stop)) return -2;
    if (rules->flags & NEEDS_END && !ends_sentence(*at, *stop)) return C4_NO_END;
    if (words < rules->least_words) return C4_FEW_WORDS;
    int found = find_phrases(*at, *stop) & rules->flags;
    if (found & LOREM_IPSUM) return C4_LOREM_IPSUM;
    if (found & JAVASCRIPT) return C4_JAVASCRIPT;
    if (found & CURLY_BRACKET) return C4_CURLY_BRACKET;
    return found & POLICY ? C4_POLICY : -1;
}

/* Write what stays of a document; returns its bytes, or -1. */
static int64_t clean_document(Call *call, const LineRules *rules, const uint8_t *at, const uint8_t *stop,
                              uint8_t *out, Number *counts) {
    uint8_t *place = out;
    int is_first = 1;
    while (at < stop) {
        const uint8_t *next, *end = any_line_stop(&call->rules, at, stop, &next);
        const uint8_t *line = skip_spaces(&call->rules, at, end);
        end = before_spaces(&call->rules, line, end);
        counts[C4_LINES]++;
        int why = judge_line(call, rules, &line, &end);
        at = next;
        if (why == -2) return -1;
        if (why >= 0) counts[why]++;
        if (why == C4_LOREM_IPSUM || why == C4_CURLY_BRACKET) return 0;
        if (why >= 0) continue;
        if (split_document(call, line, end)) return -1;
        counts[C4_SENTENCES] += count_sentences(call);
        if (!is_first) *place++ = '\n';
        is_first = 0;
        memcpy(place, line, (size_t)(end - line));
        place += end - line;
    }
    const uint8_t *first = skip_spaces(&call->rules, out, place), *last = before_spaces(&call->rules, first, place);
    memmove(out, first, (size_t)(last - first));
    return last - first;
}

/* clean_lines(text, ends, out, tables, flags, most_characters, least_words): the documents after the rules
   of c4 for lines, with a newline after each, and their ends; their counts are in `out`. */
PyObject *clean_lines(PyObject *self, PyObject *arguments) {
    Call call;
    LineRules rules;
    PyObject *tables, *found = NULL;
    long long most_characters, least_words;
    (void)self;
    memset(&call, 0, sizeof call);
    if (!PyArg_ParseTuple(arguments, "y*y*w*OiLL", call.held, call.held + 1, call.held + 2, &tables, &rules.flags,
                          &most_characters, &least_words))
        return NULL;
    rules.most_characters = most_characters;
    rules.least_words = least_words;
    if (!open_call(&call, tables, C4_COLUMNS, 1000)) {
        uint8_t *text = malloc((size_t)(call.held[0].len + call.num_documents) + 1);
        int64_t *ends = malloc((size_t)call.held[1].len + 1), place = text && ends ? 0 : -1;
        Py_BEGIN_ALLOW_THREADS;
        memset(call.out, 0, (size_t)call.held[2].len);
        for (Py_ssize_t document = 0; document < call.num_documents && place >= 0; document++) {
            int64_t size = clean_document(&call, &rules, call.text + (document ? call.ends[document - 1] + 1 : 0),
                                          call.text + call.ends[document], text + place,
                                          call.out + document * call.num_columns);
            if (size >= 0) {
                place += size;
                ends[document] = place;
                text[place++] = '\n';
            } else {
                place = -1;
            }
        }
        Py_END_ALLOW_THREADS;
        if (place >= 0)
            found = Py_BuildValue("y#y#", (char *)text, (Py_ssize_t)place, (char *)ends, call.held[1].len);
        else
            PyErr_NoMemory();
        free(text);
        free(ends);
        close_call(&call);
    }
    for (int buffer = 0; buffer < 3; buffer++) PyBuffer_Release(call.held + buffer);
    return found;
}
