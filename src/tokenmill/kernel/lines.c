/* Texts are cleaned (text/cleaning/clean.py has the rules), and their lines hashed.

   Texts are looked at 64 bytes at a time: a byte is a bit of a mask. */

#include "loops.h"
#include "xxh3.h"

#include <stdlib.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define BLOCK 64
#define NFC_BYTES (0x200000 / 8) /* a bit for all that four bytes of UTF-8 can say */

typedef struct {
    uint64_t low;     /* blanks, newlines and control characters: up to 0x20 */
    uint64_t newline;
    uint64_t tab;
    uint64_t odd;     /* control characters of ASCII, but newline and tab */
    uint64_t high;    /* not ASCII */
} Masks;

#if defined(__SSE2__)
static inline Masks masks_of(const uint8_t *text) {
    Masks found = {0, 0, 0, 0, 0};
    for (int part = 0; part < 4; part++) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(text + 16 * part));
        __m128i newline = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\n'));
        __m128i tab = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\t'));
        __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x20)), bytes);
        __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1F)), bytes);
        __m128i deleted = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7F));
        __m128i odd = _mm_or_si128(_mm_andnot_si128(_mm_or_si128(newline, tab), control), deleted);
        found.low |= (uint64_t)(uint32_t)_mm_movemask_epi8(low) << 16 * part;
        found.newline |= (uint64_t)(uint32_t)_mm_movemask_epi8(newline) << 16 * part;
        found.tab |= (uint64_t)(uint32_t)_mm_movemask_epi8(tab) << 16 * part;
        found.odd |= (uint64_t)(uint32_t)_mm_movemask_epi8(odd) << 16 * part;
        found.high |= (uint64_t)(uint32_t)_mm_movemask_epi8(bytes) << 16 * part;
    }
    return found;
}
#else
static inline Masks masks_of(const uint8_t *text) {
    Masks found = {0, 0, 0, 0, 0};
    for (int at = 0; at < BLOCK; at++) {
        uint8_t byte = text[at];
        uint64_t newline = byte == '\n', tab = byte == '\t';
        found.low |= (uint64_t)(byte <= 0x20) << at;
        found.newline |= newline << at;
        found.tab |= tab << at;
        found.odd |= (uint64_t)((byte < 0x20 && !newline && !tab) || byte == 0x7F) << at;
        found.high |= (uint64_t)(byte >> 7) << at;
    }
    return found;
}
#endif

/* The masks of what is left of a text; for the last block, a copy of it that has 64 bytes. */
static inline Masks masks_up_to(const uint8_t **text, size_t left, uint8_t copy[BLOCK]) {
    if (left < BLOCK) {
        memset(copy, 'x', BLOCK);
        memcpy(copy, *text, left);
        *text = copy;
    }
    return masks_of(*text);
}

/* Whether the character at `at`, not ASCII, is deleted, or may be changed or joined by NFC. */
static inline int is_odd_character(const uint8_t *text, size_t size, size_t at,
                                   const uint8_t *nfc_bits) {
    uint8_t lead = text[at];
    if (lead < 0xCC) return lead == 0xC2 && at + 1 < size && text[at + 1] < 0xA0;
    size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (!nfc_bits || at + length > size) return 1; /* not known: Python's code looks at it */
    uint32_t code = length == 2 ? lead & 0x1F : length == 3 ? lead & 0x0F : lead & 0x07;
    for (size_t more = 1; more < length; more++) code = code << 6 | (text[at + more] & 0x3F);
    return code == 0xFEFF || nfc_bits[code >> 3] >> (code & 7) & 1;
}

static int is_odd_text(const uint8_t *text, size_t size, const uint8_t *nfc_bits) {
    uint8_t copy[BLOCK];
    for (size_t at = 0; at < size; at += BLOCK) {
        const uint8_t *block = text + at;
        Masks found = masks_up_to(&block, size - at, copy);
        if (found.odd) return 1;
        for (uint64_t high = found.high; high; high &= high - 1) {
            size_t place = at + (size_t)__builtin_ctzll(high);
            if (text[place] >= 0xC0 && is_odd_character(text, size, place, nfc_bits)) return 1;
        }
    }
    return 0;
}

/* odd_texts(texts, nfc_bits): the numbers of texts that rules 1 to 4 may change. `nfc_bits` has a bit
   for each character that NFC may change; it may be empty if all texts are ASCII. */
PyObject *odd_texts(PyObject *self, PyObject *arguments) {
    PyObject *texts;
    Py_buffer nfc;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "O!y*", &PyList_Type, &texts, &nfc)) return NULL;
    PyObject *found = PyList_New(0);
    const uint8_t *nfc_bits = nfc.len >= NFC_BYTES ? nfc.buf : NULL;
    for (Py_ssize_t number = 0; found && number < PyList_Size(texts); number++) {
        char *text;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(PyList_GetItem(texts, number), &text, &size) < 0) {
            Py_CLEAR(found);
        } else if (is_odd_text((const uint8_t *)text, (size_t)size, nfc_bits)) {
            PyObject *value = PyLong_FromSsize_t(number);
            if (!value || PyList_Append(found, value) < 0) Py_CLEAR(found);
            Py_XDECREF(value);
        }
    }
    PyBuffer_Release(&nfc);
    return found;
}

/* Numbers that are written one after the other. */
typedef struct {
    int64_t *items;
    size_t count, room;
} Numbers;

static inline int add_number(Numbers *numbers, int64_t item) {
    if (numbers->count == numbers->room) {
        size_t room = 2 * numbers->room + 1024;
        int64_t *items = realloc(numbers->items, room * sizeof *items);
        if (!items) return -1;
        numbers->items = items;
        numbers->room = room;
    }
    numbers->items[numbers->count++] = item;
    return 0;
}

/* Rules 5 to 7 for one text; what is left is written at `place`, with a newline after it. Up to a
   block more than the text has may be overwritten there. Returns the place after it, or -1. */
static int64_t squeeze_text(const uint8_t *text, size_t size, int continues, int open, uint8_t *out,
                            int64_t place, Numbers *stops) {
    uint8_t copy[BLOCK];
    int64_t line = continues ? place - 1 : place; /* where it begins; one that is not known whole is
                                                     not empty */
    int after_empty = 0;
    uint64_t gone_before = 0;
    for (size_t at = 0; at < size; at += BLOCK) {
        size_t left = size - at;
        uint64_t next = left > BLOCK ? text[at + BLOCK] <= 0x20 : !open;
        const uint8_t *block = text + at;
        Masks found = masks_up_to(&block, left, copy);
        int stop = left < BLOCK ? (int)left : BLOCK;
        uint64_t blank = found.low & ~found.newline;
        uint64_t gone = blank & (found.low >> 1 | next << (stop - 1));
        /* What is left of a run is its last blank: a space. */
        uint64_t spaces = found.tab & ~gone & (gone << 1 | gone_before);
        uint64_t events = gone | found.newline | spaces;
        gone_before = gone >> (BLOCK - 1);
        int done = 0;
        while (done < stop) {
            uint64_t more = events >> done;
            int same = more ? __builtin_ctzll(more) : BLOCK;
            if (same > stop - done) same = stop - done;
            if (left >= 2 * BLOCK)
                memcpy(out + place, block + done, BLOCK); /* more than is meant, but a few moves */
            else
                memcpy(out + place, block + done, (size_t)same);
            place += same;
            done += same;
            if (done == stop) break;
            if (gone >> done & 1) {
                uint64_t rest = ~(gone >> done);
                done += rest ? __builtin_ctzll(rest) : BLOCK - done;
                continue;
            }
            if (found.newline >> done & 1) {
                int empty = place == line;
                if (!(empty && after_empty)) {
                    if (add_number(stops, place) < 0) return -1;
                    out[place++] = '\n';
                }
                after_empty = empty;
                line = place;
            } else {
                out[place++] = ' ';
            }
            done++;
        }
    }
    if (add_number(stops, place) < 0) return -1;
    out[place++] = '\n';
    return place;
}

/* squeeze(texts, continues, open): the texts after rules 5 to 7, each with a newline after it, in one
   buffer; where lines end in it; the number of the first line of each text, and of all. */
PyObject *squeeze(PyObject *self, PyObject *arguments) {
    PyObject *texts, *found = NULL;
    int continues, open;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "O!pp", &PyList_Type, &texts, &continues, &open)) return NULL;
    Py_ssize_t num_texts = PyList_Size(texts), total = num_texts + BLOCK;
    for (Py_ssize_t number = 0; number < num_texts; number++) {
        if (!PyBytes_Check(PyList_GetItem(texts, number))) {
            PyErr_SetString(PyExc_TypeError, "texts must be bytes");
            return NULL;
        }
        total += PyBytes_Size(PyList_GetItem(texts, number));
    }
    Numbers stops = {NULL, 0, 0}, firsts = {NULL, 0, 0};
    uint8_t *whole = malloc((size_t)total);
    int64_t place = whole && add_number(&firsts, 0) == 0 ? 0 : -1;
    for (Py_ssize_t number = 0; number < num_texts && place >= 0; number++) {
        PyObject *text = PyList_GetItem(texts, number);
        place = squeeze_text((const uint8_t *)PyBytes_AsString(text), (size_t)PyBytes_Size(text),
                             continues && number == 0, open && number == num_texts - 1, whole, place, &stops);
        if (place >= 0 && add_number(&firsts, (int64_t)stops.count) < 0) place = -1;
    }
    if (place >= 0)
        found = Py_BuildValue("y#y#y#", (char *)whole, (Py_ssize_t)place, stops.items ? (char *)stops.items : "",
                              (Py_ssize_t)(stops.count * sizeof(int64_t)), (char *)firsts.items,
                              (Py_ssize_t)(firsts.count * sizeof(int64_t)));
    else
        PyErr_NoMemory();
    free(whole);
    free(stops.items);
    free(firsts.items);
    return found;
}

static inline int is_blank(uint8_t byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

/* Not blank, of `min_chars` characters or more, of at most `max_bytes` bytes. */
static int line_counts(const uint8_t *line, int64_t size, int64_t min_chars, int64_t max_bytes) {
    if (size < 1 || size < min_chars || size > max_bytes) return 0;
    if (size / 4 < min_chars) { /* of a character's bytes, all but the first are 10xxxxxx */
        int64_t chars = 0;
        for (int64_t at = 0; at < size; at++) chars += (line[at] & 0xC0) != 0x80;
        if (chars < min_chars) return 0;
    }
    int64_t at = 0;
    while (at < size && is_blank(line[at])) at++;
    return at < size;
}

/* Whether line ends come in order, each of a newline of the text. */
static int are_lines(const Py_buffer *whole, const Py_buffer *stops) {
    const int64_t *stop = stops->buf;
    int64_t begin = 0;
    for (Py_ssize_t line = 0; line < stops->len / (Py_ssize_t)sizeof *stop; line++) {
        if (stop[line] < begin || stop[line] >= whole->len) {
            PyErr_SetString(PyExc_ValueError, "the lines are not those of the text");
            return 0;
        }
        begin = stop[line] + 1;
    }
    return 1;
}

/* lines_that_count(whole, stops, min_chars, max_bytes): a byte for each line, 1 or 0. */
PyObject *lines_that_count(PyObject *self, PyObject *arguments) {
    Py_buffer whole, stops;
    long long min_chars, max_bytes;
    PyObject *counts = NULL;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "y*y*LL", &whole, &stops, &min_chars, &max_bytes)) return NULL;
    if (are_lines(&whole, &stops)) {
        const int64_t *stop = stops.buf;
        Py_ssize_t num_lines = stops.len / (Py_ssize_t)sizeof *stop;
        counts = PyBytes_FromStringAndSize(NULL, num_lines);
        char *out = counts ? PyBytes_AsString(counts) : NULL;
        int64_t begin = 0;
        for (Py_ssize_t line = 0; counts && line < num_lines; line++) {
            const uint8_t *text = (const uint8_t *)whole.buf + begin;
            out[line] = (char)line_counts(text, stop[line] - begin, min_chars, max_bytes);
            begin = stop[line] + 1;
        }
    }
    PyBuffer_Release(&whole);
    PyBuffer_Release(&stops);
    return counts;
}

/* hash_lines(whole, stops, which): xxh3-128 of the lines that `which` selects, with their newlines. */
PyObject *hash_lines(PyObject *self, PyObject *arguments) {
    Py_buffer whole, stops, which;
    PyObject *hashes = NULL;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "y*y*y*", &whole, &stops, &which)) return NULL;
    const int64_t *stop = stops.buf;
    const uint8_t *text = whole.buf, *wanted = which.buf;
    Py_ssize_t count = 0, num_lines = which.len;
    for (Py_ssize_t line = 0; line < num_lines; line++) count += wanted[line] != 0;
    if (stops.len != num_lines * (Py_ssize_t)sizeof *stop)
        PyErr_SetString(PyExc_ValueError, "not as many choices as lines");
    else if (are_lines(&whole, &stops))
        hashes = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(Pair));
    if (hashes) {
        uint8_t *out = (uint8_t *)PyBytes_AsString(hashes);
        int64_t begin = 0;
        for (Py_ssize_t line = 0; line < num_lines; line++) {
            if (wanted[line]) {
                Pair hash = xxh3_128(text + begin, (size_t)(stop[line] + 1 - begin));
                uint64_t digest[2] = {swap64(hash.high), swap64(hash.low)};
                memcpy(out, digest, sizeof digest);
                out += sizeof digest;
            }
            begin = stop[line] + 1;
        }
    }
    PyBuffer_Release(&whole);
    PyBuffer_Release(&stops);
    PyBuffer_Release(&which);
    return hashes;
}
