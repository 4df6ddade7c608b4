/* Words of texts, and classes of characters, for loops over documents. */

#ifndef TOKENMILL_WORDS_H
#define TOKENMILL_WORDS_H

#include "loops.h"

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

typedef struct {
    const uint32_t *classes;
    const Form *forms;
    const uint32_t *slots; /* upper 16 bits of the hash, number of the form; 0: nothing */
    uint32_t mask, num_forms;
    uint32_t sizes[256];    /* of forms that begin with this byte, a bit for each size */
    uint32_t pairs[256][8]; /* first bytes of the first two words of a form that is merged */
    Py_buffer held[3];
} Rules;

typedef struct {
    const uint8_t *at;
    uint32_t size;
    uint32_t is_plain; /* ASCII letters only */
} Word;

typedef struct {
    Word *items;
    size_t count, room;
    int failed; /* no memory */
} Words;

int open_rules(PyObject *tables, Rules *rules);
void close_rules(Rules *rules);
/* Class and bytes of the character at `at`, which is before `stop`; never reads beyond. */
uint32_t class_at(const Rules *rules, const uint8_t *at, const uint8_t *stop, int *size);
/* The same for the character before `at`, which is after `begin`. */
uint32_t class_before(const Rules *rules, const uint8_t *begin, const uint8_t *at, int *size);
uint64_t hash_bytes(const uint8_t *text, size_t size);
/* Add the words of a text; `tail` is room to work in. */
void split_text(const Rules *rules, const uint8_t *at, const uint8_t *stop, Words *words, Words *tail);

#endif
