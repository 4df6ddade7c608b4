/* Words of texts, and classes of characters, for loops over documents. */

#ifndef TOKENMILL_WORDS_H
#define TOKENMILL_WORDS_H

#include "loops.h"
#include "xxh3.h"

/* What a character is; the same bits as in text/filters/word_rule.py. */
enum {
    SPACE = 1 << 0,
    LETTER = 1 << 1,
    LOWER = 1 << 2, /* a small letter, or one of a script that has none */
    UPPER = 1 << 3,
    OPENS = 1 << 4, /* is cut off at the beginning of a chunk */
    CLOSES = 1 << 5, /* is cut off at its end */
    CUTS = 1 << 6, /* cuts a chunk wherever it is */
    MAY_CUT = 1 << 7, /* cuts a chunk between some characters */
    BEFORE_DOT = 1 << 8, /* a dot after it is cut off at the end */
    QUOTE = 1 << 9,
    SYMBOL = 1 << 10, /* a word of these alone is no word for gopher_quality */
    TERMINAL = 1 << 11, /* ends a sentence, for fineweb */
    PERIOD = 1 << 12, /* ends a sentence, for c4 */
    PUNCTUATION = 1 << 13,
    LINE_END = 1 << 14,
};

typedef struct Form Form;

#define NUM_SLOTS 8192 /* more than twice the forms */

typedef struct {
    const uint32_t *classes;
    const Form *forms;
    uint32_t slots[NUM_SLOTS]; /* upper 16 bits of the hash, number of the form; 0: nothing */
    uint32_t num_forms;
    uint32_t sizes[256];    /* of forms that begin with this byte, a bit for each size */
    uint64_t hashes[1024];  /* a bit for the first 16 bits of the hash of each form */
    uint64_t stop_words;    /* a bit for the first 6 bits of the hash of each stop word */
    uint32_t pairs[256][8]; /* first bytes of the first two words of a form that is merged */
    Py_buffer held[2];
} Rules;

typedef struct {
    uint64_t hash;
    uint32_t begin; /* in its document */
    uint32_t size;  /* and PLAIN, if it is ASCII letters only */
} Word;

#define PLAIN 0x80000000u

static inline uint32_t size_of_word(Word word) { return word.size & ~PLAIN; }

typedef struct {
    Word *items;
    size_t count, room;
    int failed; /* no memory */
    const uint8_t *text; /* of the document that is split */
} Words;

int open_rules(PyObject *tables, Rules *rules);
void close_rules(Rules *rules);
void add_stop_word(Rules *rules, const char *word);
int are_documents(const Py_buffer *text, const Py_buffer *ends);
/* Add the words of a text; `tail` is room to work in. */
void split_text(const Rules *rules, const uint8_t *text, const uint8_t *stop, Words *words, Words *tail);
uint32_t class_of_wide(const Rules *rules, const uint8_t *at, const uint8_t *stop, int *size);
uint32_t class_before_wide(const Rules *rules, const uint8_t *begin, const uint8_t *at, int *size);

/* Class and bytes of the character at `at`, which is before `stop`; never reads beyond. */
static inline uint32_t class_at(const Rules *rules, const uint8_t *at, const uint8_t *stop, int *size) {
    *size = 1;
    return *at < 0x80 ? rules->classes[*at] : class_of_wide(rules, at, stop, size);
}

/* The same for the character before `at`, which is after `begin`. */
static inline uint32_t class_before(const Rules *rules, const uint8_t *begin, const uint8_t *at, int *size) {
    *size = 1;
    return at[-1] < 0x80 ? rules->classes[at[-1]] : class_before_wide(rules, begin, at, size);
}

/* 64 bits for the bytes of a word. */
static inline uint64_t hash_bytes(const uint8_t *text, size_t size) {
    uint64_t first, last;
    if (size > 16) return xxh3_128(text, size).low;
    if (size >= 8) {
        first = read64(text);
        last = read64(text + size - 8);
    } else if (size >= 4) {
        first = read32(text);
        last = read32(text + size - 4);
    } else if (size) {
        first = text[0] | (uint64_t)text[size >> 1] << 8 | (uint64_t)text[size - 1] << 16;
        last = 0;
    } else {
        return 0;
    }
    return avalanche(folded(first ^ PRIME64_2, last ^ PRIME64_3 ^ (uint64_t)size << 56) + first + size);
}

#endif
