/* XXH3 with 128 bits and seed 0, after its specification: the hash that the package `xxhash` has,
   for many short texts without a Python object for each. Little-endian machines only. */

#ifndef TOKENMILL_XXH3_H
#define TOKENMILL_XXH3_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    uint64_t low, high;
} Pair;

#define PRIME32_1 0x9E3779B1u
#define PRIME32_2 0x85EBCA77u
#define PRIME32_3 0xC2B2AE3Du
#define PRIME64_1 0x9E3779B185EBCA87ull
#define PRIME64_2 0xC2B2AE3D27D4EB4Full
#define PRIME64_3 0x165667B19E3779F9ull
#define PRIME64_4 0x85EBCA77C2B2AE63ull
#define PRIME64_5 0x27D4EB2F165667C5ull
#define SECRET_BYTES 192
#define STRIPE_BYTES 64
#define BLOCK_BYTES 1024 /* 16 stripes, each with a key that is 8 bytes further on */

static const uint8_t SECRET[SECRET_BYTES] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

static inline uint32_t read32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return value;
}

static inline uint64_t read64(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, 8);
    return value;
}

static inline uint64_t secret64(size_t at) { return read64(SECRET + at); }

static inline uint64_t swap64(uint64_t value) {
    value = (value & 0x00FF00FF00FF00FFull) << 8 | (value >> 8 & 0x00FF00FF00FF00FFull);
    value = (value & 0x0000FFFF0000FFFFull) << 16 | (value >> 16 & 0x0000FFFF0000FFFFull);
    return value << 32 | value >> 32;
}

static inline Pair product(uint64_t a, uint64_t b) {
    unsigned __int128 whole = (unsigned __int128)a * b;
    Pair pair = {(uint64_t)whole, (uint64_t)(whole >> 64)};
    return pair;
}

static inline uint64_t folded(uint64_t a, uint64_t b) {
    Pair pair = product(a, b);
    return pair.low ^ pair.high;
}

static inline uint64_t avalanche(uint64_t hash) {
    hash = (hash ^ hash >> 37) * 0x165667919E3779F9ull;
    return hash ^ hash >> 32;
}

static inline uint64_t avalanche64(uint64_t hash) { /* that of the older XXH64 */
    hash = (hash ^ hash >> 33) * PRIME64_2;
    hash = (hash ^ hash >> 29) * PRIME64_3;
    return hash ^ hash >> 32;
}

static inline Pair hash_up_to_3(const uint8_t *text, size_t size) {
    uint32_t first = text[0], middle = text[size >> 1], last = text[size - 1];
    uint32_t low = first << 16 | middle << 24 | last | (uint32_t)size << 8;
    uint32_t high = (uint32_t)(swap64(low) >> 32);
    high = high << 13 | high >> 19;
    Pair hash = {
        avalanche64(low ^ (uint64_t)(read32(SECRET) ^ read32(SECRET + 4))),
        avalanche64(high ^ (uint64_t)(read32(SECRET + 8) ^ read32(SECRET + 12))),
    };
    return hash;
}

static inline Pair hash_up_to_8(const uint8_t *text, size_t size) {
    uint64_t both = read32(text) | (uint64_t)read32(text + size - 4) << 32;
    Pair hash = product(both ^ secret64(16) ^ secret64(24), PRIME64_1 + (size << 2));
    hash.high += hash.low << 1;
    hash.low ^= hash.high >> 3;
    hash.low = (hash.low ^ hash.low >> 35) * 0x9FB21C651E98DF25ull;
    hash.low ^= hash.low >> 28;
    hash.high = avalanche(hash.high);
    return hash;
}

static inline Pair hash_up_to_16(const uint8_t *text, size_t size) {
    uint64_t low = read64(text), high = read64(text + size - 8);
    Pair mixed = product(low ^ high ^ secret64(32) ^ secret64(40), PRIME64_1);
    mixed.low += (uint64_t)(size - 1) << 54;
    high ^= secret64(48) ^ secret64(56);
    mixed.high += high + (uint64_t)(uint32_t)high * (PRIME32_2 - 1);
    mixed.low ^= swap64(mixed.high);
    Pair hash = product(mixed.low, PRIME64_2);
    hash.high = avalanche(hash.high + mixed.high * PRIME64_2);
    hash.low = avalanche(hash.low);
    return hash;
}

/* 16 bytes at `one` and 16 at `other`, with 32 bytes of the secret. */
static inline void mix(Pair *sum, const uint8_t *one, const uint8_t *other, size_t secret) {
    uint64_t a = read64(one), b = read64(one + 8), c = read64(other), d = read64(other + 8);
    sum->low = (sum->low + folded(a ^ secret64(secret), b ^ secret64(secret + 8))) ^ (c + d);
    sum->high = (sum->high + folded(c ^ secret64(secret + 16), d ^ secret64(secret + 24))) ^ (a + b);
}

static inline Pair finished(Pair sum, size_t size) {
    uint64_t high = sum.low * PRIME64_1 + sum.high * PRIME64_4 + size * PRIME64_2;
    Pair hash = {avalanche(sum.low + sum.high), 0 - avalanche(high)};
    return hash;
}

static inline Pair hash_up_to_128(const uint8_t *text, size_t size) {
    Pair sum = {size * PRIME64_1, 0};
    for (size_t pair = (size - 1) / 32; pair > 0; pair--) /* from the middle outwards */
        mix(&sum, text + 16 * pair, text + size - 16 * (pair + 1), 32 * pair);
    mix(&sum, text, text + size - 16, 0);
    return finished(sum, size);
}

static inline Pair hash_up_to_240(const uint8_t *text, size_t size) {
    Pair sum = {size * PRIME64_1, 0};
    size_t at = 0;
    for (; at < 128; at += 32) mix(&sum, text + at, text + at + 16, at);
    sum.low = avalanche(sum.low);
    sum.high = avalanche(sum.high);
    for (; at + 32 <= size; at += 32) mix(&sum, text + at, text + at + 16, 3 + at - 128);
    mix(&sum, text + size - 16, text + size - 32, 103);
    return finished(sum, size);
}

static inline void add_stripe(uint64_t sums[8], const uint8_t *text, size_t secret) {
    for (int lane = 0; lane < 8; lane++) {
        uint64_t data = read64(text + 8 * lane), keyed = data ^ secret64(secret + 8 * lane);
        sums[lane ^ 1] += data;
        sums[lane] += (uint64_t)(uint32_t)keyed * (keyed >> 32);
    }
}

static inline uint64_t merged(const uint64_t sums[8], size_t secret, uint64_t start) {
    for (int lane = 0; lane < 8; lane += 2)
        start += folded(sums[lane] ^ secret64(secret + 8 * lane),
                        sums[lane + 1] ^ secret64(secret + 8 * lane + 8));
    return avalanche(start);
}

static Pair hash_long(const uint8_t *text, size_t size) {
    uint64_t sums[8] = {PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3,
                        PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1};
    for (size_t at = 0; at < (size - 1) / STRIPE_BYTES * STRIPE_BYTES; at += STRIPE_BYTES) {
        add_stripe(sums, text + at, at % BLOCK_BYTES / 8);
        if (at % BLOCK_BYTES == BLOCK_BYTES - STRIPE_BYTES)
            for (int lane = 0; lane < 8; lane++) {
                uint64_t key = secret64(SECRET_BYTES - STRIPE_BYTES + 8 * lane);
                sums[lane] = (sums[lane] ^ sums[lane] >> 47 ^ key) * PRIME32_1;
            }
    }
    add_stripe(sums, text + size - STRIPE_BYTES, SECRET_BYTES - STRIPE_BYTES - 7);
    Pair hash = {
        merged(sums, 11, size * PRIME64_1),
        merged(sums, SECRET_BYTES - STRIPE_BYTES - 11, ~(size * PRIME64_2)),
    };
    return hash;
}

/* Of a text that is not empty. */
static inline Pair xxh3_128(const uint8_t *text, size_t size) {
    if (size <= 3) return hash_up_to_3(text, size);
    if (size <= 8) return hash_up_to_8(text, size);
    if (size <= 16) return hash_up_to_16(text, size);
    if (size <= 128) return hash_up_to_128(text, size);
    if (size <= 240) return hash_up_to_240(text, size);
    return hash_long(text, size);
}

#endif
