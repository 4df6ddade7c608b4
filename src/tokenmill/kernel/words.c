/* Words of texts after the rule of text/filters/word_rule.py, which says all of it in Python: white
   space separates chunks; a chunk loses its affixes, is cut inside, and gets its known forms back. */

#include "words.h"

#include <stdlib.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* A class is a set of bits for each character below this; what is above is rare ideographs. */
#define NUM_CLASSES 0x20000
#define IDEOGRAPH (LETTER | LOWER | UPPER)
#define FORM_BYTES 16 /* the longest one */
#define MOST_MERGED 15 /* words of one form */

enum { IS_FORM = 1, IS_MERGED = 2, IS_UNIT = 4 };

struct Form {
    uint8_t text[FORM_BYTES];
    uint32_t size, kind;
    uint32_t cuts;   /* bit i: a word begins at byte i */
    uint32_t plain;  /* as `cuts`, of the words that are merged into this form */
};

uint32_t class_of_wide(const Rules *rules, const uint8_t *at, const uint8_t *stop, int *size) {
    uint8_t lead = at[0];
    int length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (length > stop - at) length = (int)(stop - at);
    uint32_t code = length == 2 ? lead & 0x1F : length == 3 ? lead & 0x0F : lead & 0x07;
    for (int more = 1; more < length; more++) code = code << 6 | (at[more] & 0x3F);
    *size = length;
    return code < NUM_CLASSES ? rules->classes[code] : code < 2 * NUM_CLASSES ? IDEOGRAPH : 0;
}

uint32_t class_before_wide(const Rules *rules, const uint8_t *begin, const uint8_t *at, int *size) {
    const uint8_t *start = at - 1;
    while (start > begin && at - start < 4 && (*start & 0xC0) == 0x80) start--;
    uint32_t found = class_at(rules, start, at, size);
    *size = (int)(at - start);
    return found;
}

static inline int is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

static inline int is_ascii_letter(uint8_t byte) { return (uint8_t)((byte | 0x20) - 'a') < 26; }

/* Whether a form may have this first byte and this size: most words are no form. */
static inline int may_be_form(const Rules *rules, const uint8_t *at, size_t size) {
    return size <= FORM_BYTES && rules->sizes[*at] >> size & 1;
}

/* The same by the hash, of which few others are alike. */
static inline int may_have_hash(const Rules *rules, uint64_t hash) { return rules->hashes[hash >> 54] >> (hash >> 48 & 63) & 1; }

static const Form *look_up(const Rules *rules, const uint8_t *at, size_t size, uint64_t hash, uint32_t kind) {
    uint32_t slot;
    for (size_t place = hash % NUM_SLOTS; (slot = rules->slots[place]); place = (place + 1) % NUM_SLOTS) {
        if (slot >> 16 != hash >> 48) continue;
        const Form *form = rules->forms + (slot & 0xFFFF);
        if (form->size == size && !memcmp(form->text, at, size)) return form->kind & kind ? form : NULL;
    }
    return NULL;
}

/* The form of these bytes that is of this kind, or NULL. */
static inline const Form *find_form(const Rules *rules, const uint8_t *at, const uint8_t *stop, uint32_t kind) {
    size_t size = (size_t)(stop - at);
    if (!size || !may_be_form(rules, at, size)) return NULL;
    return look_up(rules, at, size, hash_bytes(at, size), kind);
}

static int grow(Words *words) {
    size_t room = 2 * words->room + 1024;
    Word *items = realloc(words->items, room * sizeof *items);
    if (!items) {
        words->failed = 1;
        return -1;
    }
    words->items = items;
    words->room = room;
    return 0;
}

static inline void push_word(Words *words, Word word) {
    if (words->count == words->room && grow(words)) return;
    words->items[words->count++] = word;
}

static inline void push(Words *words, const uint8_t *at, const uint8_t *stop) {
    Word word = {hash_bytes(at, (size_t)(stop - at)), (uint32_t)(at - words->text), (uint32_t)(stop - at)};
    push_word(words, word);
}

static void push_form(Words *words, const Form *form, const uint8_t *at) {
    uint32_t begin = 0;
    for (uint32_t byte = 1; byte < form->size && byte < FORM_BYTES; byte++)
        if (form->cuts >> byte & 1) {
            push(words, at + begin, at + byte);
            begin = byte;
        }
    push(words, at + begin, at + form->size);
}

static inline size_t dots_from(const uint8_t *at, const uint8_t *stop) {
    const uint8_t *dot = at;
    while (dot < stop && *dot == '.') dot++;
    return (size_t)(dot - at);
}

/* Bytes of what is cut off at the beginning; 0 for nothing. */
static size_t prefix_size(const Rules *rules, const uint8_t *at, const uint8_t *stop) {
    int size;
    if (is_ascii_letter(*at)) {
        if (stop - at >= 2 && (*at == 'A' || *at == 'C') && at[1] == '$') return 2;
        return stop - at >= 3 && !memcmp(at, "US$", 3) ? 3 : 0;
    }
    if (class_at(rules, at, stop, &size) & OPENS) return (size_t)size;
    if (*at == '+') return stop - at < 2 || !is_digit(at[1]);
    if (*at == '.') {
        size_t dots = dots_from(at, stop);
        return dots > 1 ? dots : 0;
    }
    return 0;
}

static size_t dot_size(const Rules *rules, const uint8_t *at, const uint8_t *stop) {
    const uint8_t *dot = stop;
    while (dot > at && dot[-1] == '.') dot--;
    if (stop - dot > 1) return (size_t)(stop - dot);
    if (dot == at) return 0;
    int size, more;
    uint32_t before = class_before(rules, at, dot, &size);
    if (is_digit(dot[-1]) || before & (LOWER | BEFORE_DOT)) return 1;
    return before & UPPER && dot - size > at && class_before(rules, at, dot - size, &more) & UPPER;
}

/* A unit after a digit, such as "km". */
static size_t unit_size(const Rules *rules, const uint8_t *at, const uint8_t *stop) {
    const uint8_t *unit = stop;
    while (unit > at && !is_digit(unit[-1])) {
        if (stop - unit == FORM_BYTES) return 0;
        unit--;
    }
    return unit > at && find_form(rules, unit, stop, IS_UNIT) ? (size_t)(stop - unit) : 0;
}

static size_t suffix_size(const Rules *rules, const uint8_t *at, const uint8_t *stop) {
    if (at == stop) return 0;
    if (stop[-1] == '.') return dot_size(rules, at, stop);
    int size;
    if (class_before(rules, at, stop, &size) & CLOSES) return (size_t)size;
    if ((stop[-1] | 0x20) == 's') {
        if (stop - at >= 2 && stop[-2] == '\'') return 2;
        if (stop - at >= 4 && !memcmp(stop - 4, "\xe2\x80\x99", 3)) return 4;
    }
    return unit_size(rules, at, stop);
}

/* Bytes of a cut inside a chunk at `at`; 0 for none. */
static size_t infix_size(const Rules *rules, const uint8_t *begin, const uint8_t *at, const uint8_t *stop) {
    int size, other;
    uint32_t here = class_at(rules, at, stop, &size);
    if (here & CUTS) return (size_t)size;
    if (!(here & MAY_CUT)) return 0;
    if (*at == '.' && stop - at > 1 && at[1] == '.') return dots_from(at, stop);
    if (at == begin || stop - at == size) return 0;
    uint32_t before = class_before(rules, begin, at, &other), after = class_at(rules, at + size, stop, &other);
    int number_before = is_digit(at[-1]);
    switch (*at) {
    case '.': return before & (LOWER | QUOTE) && after & (UPPER | QUOTE);
    case ',': return before & LETTER && after & LETTER;
    case '+': case '*': case '^': return number_before && (is_digit(at[1]) || at[1] == '-');
    case ':': case '<': case '>': case '=': case '/': return (before & LETTER || number_before) && after & LETTER;
    default: break;
    }
    if (*at == '-' && number_before && (is_digit(at[1]) || at[1] == '-')) return 1;
    if (!(before & LETTER) && !number_before) return 0;
    const uint8_t *next = at + size; /* after hyphens: up to three short ones, or two long ones */
    int most = *at == '-' ? 3 : *at == 0xE2 && at[2] == 0x94 ? 2 : 1;
    for (int count = 1; count < most && stop - next >= size && !memcmp(next, at, (size_t)size); count++) next += size;
    return next < stop && class_at(rules, next, stop, &other) & LETTER ? (size_t)(next - at) : 0;
}

static inline int is_host_character(const uint8_t *at, int size) {
    return is_ascii_letter(*at) || is_digit(*at) || size == 3 || (size == 2 && (*at > 0xC2 || at[1] > 0xA0));
}

/* Whether this is HOST.DOMAIN[:PORT][/PATH]. */
static int is_host(const Rules *rules, const uint8_t *at, const uint8_t *stop) {
    int labels = 0, size;
    for (;;) { /* labels, of which the last one is of small letters */
        int letters = 0, is_small = 1, is_label = 1, is_good = 0;
        for (; at < stop && *at != '.' && !memchr(":/?#", *at, 4); at += size, letters++) {
            is_small = class_at(rules, at, stop, &size) & LOWER && is_small;
            is_good = is_host_character(at, size);
            is_label = is_label && (is_good || (letters && (*at == '-' || *at == '_')));
            if (!is_small && !is_label) return 0;
        }
        if (at == stop || *at != '.') {
            if (!is_small || letters < 2 || !labels) return 0;
            break;
        }
        if (!is_label || !is_good) return 0;
        labels++;
        at++;
    }
    if (at < stop && *at == ':') {
        const uint8_t *port = ++at;
        while (at < stop && is_digit(*at)) at++;
        if (at - port < 2 || at - port > 5) return 0;
    }
    return at == stop || memchr("/?#", *at, 3) != NULL;
}

/* Whether a chunk is a web address: it stays whole. */
static int is_address(const Rules *rules, const uint8_t *at, const uint8_t *stop) {
    if (is_host(rules, at, stop)) return 1;
    const uint8_t *scheme = at;
    while (scheme < stop && (is_ascii_letter(*scheme) || is_digit(*scheme) || memchr("_+-.", *scheme, 4))) scheme++;
    if (scheme - at >= 2 && stop - scheme > 3 && !memcmp(scheme, "://", 3) && is_host(rules, scheme + 3, stop)) return 1;
    for (const uint8_t *user = at + 1; user < stop; user++)
        if (*user == '@' && is_host(rules, user + 1, stop)) return 1;
    return 0;
}

static void split_inside(const Rules *rules, const uint8_t *begin, const uint8_t *stop, Words *words) {
    const uint8_t *start = begin, *at = begin;
    int size, is_cut = 0;
    while (at < stop) {
        size_t infix = infix_size(rules, begin, at, stop);
        if (infix && at > begin) {
            if (!is_cut && is_address(rules, begin, stop)) break;
            is_cut = 1;
            if (at > start) push(words, start, at);
            push(words, at, at + infix);
            start = at + infix;
        }
        if (!infix) {
            class_at(rules, at, stop, &size);
            infix = (size_t)size;
        }
        at += infix;
    }
    if (start < stop) push(words, start, stop);
}

static inline const uint8_t *begin_of(const Words *words, size_t number) {
    return words->text + words->items[number].begin;
}

static inline const uint8_t *stop_of(const Words *words, size_t number) {
    return begin_of(words, number) + size_of_word(words->items[number]);
}

static inline int may_be_merged(const Rules *rules, uint8_t first, uint8_t second) {
    return rules->pairs[first][second >> 5] >> (second & 31) & 1;
}

/* Mark where forms begin that words from `first` on together are: bit k for one of k words. */
static int mark_merged(const Rules *rules, const Words *words, size_t first, uint16_t *lengths) {
    int found = 0;
    for (size_t start = first; start + 1 < words->count; start++) {
        const uint8_t *begin = begin_of(words, start);
        if (!may_be_merged(rules, *begin, *begin_of(words, start + 1))) continue;
        uint32_t cuts = 0;
        for (size_t last = start + 1; last < words->count && last - start < MOST_MERGED; last++) {
            if (stop_of(words, last) - begin > FORM_BYTES) break;
            cuts |= 1u << (begin_of(words, last) - begin);
            const Form *form = find_form(rules, begin, stop_of(words, last), IS_MERGED);
            if (!form || form->plain != cuts) continue;
            lengths[start - first] |= (uint16_t)(1u << (last - start + 1));
            found = 1;
        }
    }
    return found;
}

/* Words from `first` on that together are a known form, such as ":" and ")", become it: the longest
   first, then the first one; what is not taken is not free for others either. */
static void merge_words(const Rules *rules, Words *words, size_t first) {
    size_t count = words->count - first;
    uint16_t *lengths = calloc(count, sizeof *lengths);
    uint8_t *taken = calloc(count, 2), *chosen = taken + count;
    Words merged = {NULL, 0, 0, 0, words->text};
    words->failed |= !lengths || !taken;
    if (!words->failed && mark_merged(rules, words, first, lengths)) {
        for (size_t length = MOST_MERGED; length > 1; length--)
            for (size_t start = 0; start + length <= count; start++)
                if (lengths[start] >> length & 1) {
                    if (!taken[start] && !taken[start + length - 1]) chosen[start] = (uint8_t)length;
                    memset(taken + start, 1, length);
                }
        for (size_t start = 0; start < count; start += chosen[start] ? chosen[start] : 1) {
            const uint8_t *begin = begin_of(words, first + start);
            if (chosen[start])
                push_form(&merged, find_form(rules, begin, stop_of(words, first + start + chosen[start] - 1), IS_MERGED), begin);
            else
                push_word(&merged, words->items[first + start]);
        }
        words->count = first;
        for (size_t word = 0; word < merged.count; word++) push_word(words, merged.items[word]);
        words->failed |= merged.failed;
    }
    free(merged.items);
    free(lengths);
    free(taken);
}

static int has_pair(const Rules *rules, const Words *words, size_t first) {
    for (size_t start = first; start + 1 < words->count; start++)
        if (may_be_merged(rules, *begin_of(words, start), *begin_of(words, start + 1))) return 1;
    return 0;
}

static void split_chunk(const Rules *rules, const uint8_t *begin, const uint8_t *stop, Words *words, Words *tail) {
    size_t first = words->count;
    const Form *form = NULL;
    tail->count = 0;
    while (begin < stop) {
        if ((form = find_form(rules, begin, stop, IS_FORM))) break;
        size_t prefix = prefix_size(rules, begin, stop);
        if (prefix && (form = find_form(rules, begin + prefix, stop, IS_FORM))) {
            push(words, begin, begin + prefix);
            begin += prefix;
            break;
        }
        size_t suffix = suffix_size(rules, begin + prefix, stop);
        if (suffix && (form = find_form(rules, begin, stop - suffix, IS_FORM))) {
            push(tail, stop - suffix, stop);
            stop -= suffix;
            break;
        }
        if (!prefix && !suffix) break;
        if (prefix) push(words, begin, begin + prefix);
        if (suffix) push(tail, stop - suffix, stop);
        begin += prefix;
        stop -= suffix;
    }
    if (form)
        push_form(words, form, begin);
    else if (begin < stop)
        split_inside(rules, begin, stop, words);
    while (tail->count) push_word(words, tail->items[--tail->count]);
    words->failed |= tail->failed;
    if (has_pair(rules, words, first)) merge_words(rules, words, first);
}

static inline const uint8_t *after_letters(const uint8_t *at, const uint8_t *stop) {
#if defined(__SSE2__)
    while (stop - at >= 16) {
        __m128i bytes = _mm_or_si128(_mm_loadu_si128((const __m128i *)at), _mm_set1_epi8(0x20));
        __m128i number = _mm_sub_epi8(bytes, _mm_set1_epi8('a'));
        __m128i letter = _mm_cmpeq_epi8(_mm_min_epu8(number, _mm_set1_epi8(25)), number);
        unsigned others = (unsigned)_mm_movemask_epi8(letter) ^ 0xFFFF;
        if (others) return at + __builtin_ctz(others);
        at += 16;
    }
#endif
    while (at < stop && is_ascii_letter(*at)) at++;
    return at;
}

static inline int is_blank(uint8_t byte) { return byte == ' ' || byte == '\n'; }

/* ASCII letters, and perhaps one mark after them: nearly all chunks of prose. Returns where it ends; NULL
   where more is to be looked at. */
static inline const uint8_t *split_plain(const Rules *rules, const uint8_t *at, const uint8_t *stop, Words *words) {
    const uint8_t *end = after_letters(at, stop);
    size_t size = (size_t)(end - at);
    if (!size || size >= PLAIN) return NULL;
    Word word = {hash_bytes(at, size), (uint32_t)(at - words->text), (uint32_t)size | PLAIN};
    int is_whole = end == stop || is_blank(*end);
    if (!is_whole) {
        if (stop - end > 1 && !is_blank(end[1])) return NULL;
        if (*end != ',' && !(*end == '.' && end[-1] >= 'a') && *end != ';') return NULL;
        if (may_have_hash(rules, hash_bytes(at, size + 1)) || may_be_merged(rules, *at, *end)) return NULL;
    }
    if (may_have_hash(rules, word.hash)) {
        if (may_be_form(rules, at, size) && look_up(rules, at, size, word.hash, IS_FORM)) return NULL;
    }
    push_word(words, word);
    if (is_whole) return end;
    push(words, end, end + 1);
    return end + 1;
}

void split_text(const Rules *rules, const uint8_t *text, const uint8_t *stop, Words *words, Words *tail) {
    const uint8_t *at = text;
    int size;
    words->text = tail->text = text;
    while (at < stop) {
        if (class_at(rules, at, stop, &size) & SPACE) {
            at += size;
            continue;
        }
        const uint8_t *begin = at, *plain = split_plain(rules, at, stop, words);
        if (plain) {
            at = plain;
            continue;
        }
        while (at < stop && !(class_at(rules, at, stop, &size) & SPACE)) at += size;
        split_chunk(rules, begin, at, words, tail);
    }
}

/* The tables of word_rule.py: classes of characters, and forms. */
int open_rules(PyObject *tables, Rules *rules) {
    memset(rules, 0, sizeof *rules);
    if (!PyTuple_Check(tables) || PyTuple_Size(tables) != 2) {
        PyErr_SetString(PyExc_TypeError, "the tables are not those of the word rule");
        return -1;
    }
    for (int table = 0; table < 2; table++)
        if (PyObject_GetBuffer(PyTuple_GetItem(tables, table), &rules->held[table], PyBUF_SIMPLE) < 0) {
            close_rules(rules);
            return -1;
        }
    rules->classes = rules->held[0].buf;
    rules->forms = rules->held[1].buf;
    rules->num_forms = (uint32_t)(rules->held[1].len / (Py_ssize_t)sizeof(Form));
    if (rules->held[0].len != NUM_CLASSES * 4 || rules->num_forms > NUM_SLOTS / 2) {
        close_rules(rules);
        PyErr_SetString(PyExc_ValueError, "the tables are not those of the word rule");
        return -1;
    }
    for (uint32_t number = 0; number < rules->num_forms; number++) {
        const Form *form = rules->forms + number;
        if (form->size == 0 || form->size > FORM_BYTES) continue; /* never found */
        uint64_t hash = hash_bytes(form->text, form->size);
        size_t place = hash % NUM_SLOTS;
        while (rules->slots[place]) place = (place + 1) % NUM_SLOTS;
        rules->slots[place] = (uint32_t)(hash >> 48) << 16 | number;
        rules->hashes[hash >> 54] |= UINT64_C(1) << (hash >> 48 & 63);
        rules->sizes[form->text[0]] |= 1u << form->size;
        if (form->kind & IS_MERGED && form->plain > 1) {
            uint32_t second = (uint32_t)__builtin_ctz(form->plain & ~1u);
            if (second < form->size) rules->pairs[form->text[0]][form->text[second] >> 5] |= 1u << (form->text[second] & 31);
        }
    }
    return 0;
}

/* Stop words are few: most words are told from them by 6 bits. */
void add_stop_word(Rules *rules, const char *word) {
    rules->stop_words |= UINT64_C(1) << (hash_bytes((const uint8_t *)word, strlen(word)) >> 58);
}

void close_rules(Rules *rules) {
    for (int table = 0; table < 2; table++)
        if (rules->held[table].obj) PyBuffer_Release(&rules->held[table]);
}

/* Whether documents with a newline after each are where `ends` says. */
int are_documents(const Py_buffer *text, const Py_buffer *ends) {
    const int64_t *end = ends->buf;
    int64_t begin = 0;
    for (Py_ssize_t document = 0; document < ends->len / (Py_ssize_t)sizeof *end; document++) {
        if (end[document] < begin || end[document] > text->len || end[document] - begin > INT32_MAX) return 0;
        begin = end[document] + 1;
    }
    return ends->len % (Py_ssize_t)sizeof *end == 0;
}

/* split_words(text, ends, tables): the words of all documents, 16 bytes each: hash, begin in the document,
   size; and the number of words up to the end of each document. */
PyObject *split_words(PyObject *self, PyObject *arguments) {
    Py_buffer text, ends;
    PyObject *tables, *found = NULL;
    Rules rules;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "y*y*O", &text, &ends, &tables)) return NULL;
    if (!are_documents(&text, &ends)) {
        PyErr_SetString(PyExc_ValueError, "the ends are not those of documents of at most 2 GiB");
    } else if (!open_rules(tables, &rules)) {
        Words words = {NULL, 0, 0, 0, NULL}, tail = words;
        const int64_t *end = ends.buf;
        int64_t *counts = malloc((size_t)ends.len + 1), begin = 0;
        Py_BEGIN_ALLOW_THREADS;
        for (Py_ssize_t document = 0; counts && document < ends.len / (Py_ssize_t)sizeof *end; document++) {
            split_text(&rules, (const uint8_t *)text.buf + begin, (const uint8_t *)text.buf + end[document], &words, &tail);
            begin = end[document] + 1;
            counts[document] = (int64_t)words.count;
        }
        Py_END_ALLOW_THREADS;
        if (counts && !words.failed)
            found = Py_BuildValue("y#y#", words.items ? (char *)words.items : "",
                                  (Py_ssize_t)(words.count * sizeof *words.items), (char *)counts, ends.len);
        else
            PyErr_NoMemory();
        free(counts);
        free(words.items);
        free(tail.items);
        close_rules(&rules);
    }
    PyBuffer_Release(&text);
    PyBuffer_Release(&ends);
    return found;
}
