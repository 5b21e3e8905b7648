/* Keccak-f[1600], Keccak-f[800] and a two-state Keccak-f[1600] with all 25 lanes in locals; SHA-3, SHAKE, tree hash. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    uint64_t lanes[25];
    size_t rate, at;
} keccak_sponge;

static const uint64_t iota_64[24] = {
    0x0000000000000001ull, 0x0000000000008082ull, 0x800000000000808aull, 0x8000000080008000ull, 0x000000000000808bull,
    0x0000000080000001ull, 0x8000000080008081ull, 0x8000000000008009ull, 0x000000000000008aull, 0x0000000000000088ull,
    0x0000000080008009ull, 0x000000008000000aull, 0x000000008000808bull, 0x800000000000008bull, 0x8000000000008089ull,
    0x8000000000008003ull, 0x8000000000008002ull, 0x8000000000000080ull, 0x000000000000800aull, 0x800000008000000aull,
    0x8000000080008081ull, 0x8000000000008080ull, 0x0000000080000001ull, 0x8000000080008008ull};

#define ROL64(x, n) ((uint64_t)((x) << (n)) | (uint64_t)((x) >> (64 - (n))))
#define ROL32(x, n) ((uint32_t)((x) << ((n) % 32)) | (uint32_t)((x) >> (32 - (n) % 32)))

#define DECLARE_LANES(T, a)                                                                                            \
    T a##00, a##01, a##02, a##03, a##04, a##10, a##11, a##12, a##13, a##14, a##20, a##21, a##22, a##23, a##24, a##30,  \
        a##31, a##32, a##33, a##34, a##40, a##41, a##42, a##43, a##44

/* Lane aYX of row Y and column X is element 5 * Y + X of the state. */
#define LOAD_LANES(a, s)                                                                                               \
    a##00 = s[0], a##01 = s[1], a##02 = s[2], a##03 = s[3], a##04 = s[4];                                              \
    a##10 = s[5], a##11 = s[6], a##12 = s[7], a##13 = s[8], a##14 = s[9];                                              \
    a##20 = s[10], a##21 = s[11], a##22 = s[12], a##23 = s[13], a##24 = s[14];                                         \
    a##30 = s[15], a##31 = s[16], a##32 = s[17], a##33 = s[18], a##34 = s[19];                                         \
    a##40 = s[20], a##41 = s[21], a##42 = s[22], a##43 = s[23], a##44 = s[24]

#define STORE_LANES(s, a)                                                                                              \
    s[0] = a##00, s[1] = a##01, s[2] = a##02, s[3] = a##03, s[4] = a##04;                                              \
    s[5] = a##10, s[6] = a##11, s[7] = a##12, s[8] = a##13, s[9] = a##14;                                              \
    s[10] = a##20, s[11] = a##21, s[12] = a##22, s[13] = a##23, s[14] = a##24;                                         \
    s[15] = a##30, s[16] = a##31, s[17] = a##32, s[18] = a##33, s[19] = a##34;                                         \
    s[20] = a##40, s[21] = a##41, s[22] = a##42, s[23] = a##43, s[24] = a##44

#define COPY_LANES(a, e)                                                                                               \
    a##00 = e##00, a##01 = e##01, a##02 = e##02, a##03 = e##03, a##04 = e##04, a##10 = e##10, a##11 = e##11;           \
    a##12 = e##12, a##13 = e##13, a##14 = e##14, a##20 = e##20, a##21 = e##21, a##22 = e##22, a##23 = e##23;           \
    a##24 = e##24, a##30 = e##30, a##31 = e##31, a##32 = e##32, a##33 = e##33, a##34 = e##34, a##40 = e##40;           \
    a##41 = e##41, a##42 = e##42, a##43 = e##43, a##44 = e##44

#define CHI_ROW(e, y, b0, b1, b2, b3, b4)                                                                              \
    e##y##0 = b0 ^ (~b1 & b2), e##y##1 = b1 ^ (~b2 & b3), e##y##2 = b2 ^ (~b3 & b4);                                   \
    e##y##3 = b3 ^ (~b4 & b0), e##y##4 = b4 ^ (~b0 & b1)

/* theta, rho, pi, chi and iota from lanes a into lanes e. */
#define ROUND(T, ROL, a, e, constant)                                                                                  \
    do {                                                                                                               \
        T c0 = a##00 ^ a##10 ^ a##20 ^ a##30 ^ a##40, c1 = a##01 ^ a##11 ^ a##21 ^ a##31 ^ a##41;                      \
        T c2 = a##02 ^ a##12 ^ a##22 ^ a##32 ^ a##42, c3 = a##03 ^ a##13 ^ a##23 ^ a##33 ^ a##43;                      \
        T c4 = a##04 ^ a##14 ^ a##24 ^ a##34 ^ a##44;                                                                  \
        T d0 = c4 ^ ROL(c1, 1), d1 = c0 ^ ROL(c2, 1), d2 = c1 ^ ROL(c3, 1), d3 = c2 ^ ROL(c4, 1);                      \
        T d4 = c3 ^ ROL(c0, 1);                                                                                        \
        T b0, b1, b2, b3, b4;                                                                                          \
        b0 = a##00 ^ d0, b1 = ROL((a##11 ^ d1), 44), b2 = ROL((a##22 ^ d2), 43);                                       \
        b3 = ROL((a##33 ^ d3), 21), b4 = ROL((a##44 ^ d4), 14);                                                        \
        CHI_ROW(e, 0, b0, b1, b2, b3, b4);                                                                             \
        e##00 ^= (T)(constant);                                                                                        \
        b0 = ROL((a##03 ^ d3), 28), b1 = ROL((a##14 ^ d4), 20), b2 = ROL((a##20 ^ d0), 3);                             \
        b3 = ROL((a##31 ^ d1), 45), b4 = ROL((a##42 ^ d2), 61);                                                        \
        CHI_ROW(e, 1, b0, b1, b2, b3, b4);                                                                             \
        b0 = ROL((a##01 ^ d1), 1), b1 = ROL((a##12 ^ d2), 6), b2 = ROL((a##23 ^ d3), 25);                              \
        b3 = ROL((a##34 ^ d4), 8), b4 = ROL((a##40 ^ d0), 18);                                                         \
        CHI_ROW(e, 2, b0, b1, b2, b3, b4);                                                                             \
        b0 = ROL((a##04 ^ d4), 27), b1 = ROL((a##10 ^ d0), 36), b2 = ROL((a##21 ^ d1), 10);                            \
        b3 = ROL((a##32 ^ d2), 15), b4 = ROL((a##43 ^ d3), 56);                                                        \
        CHI_ROW(e, 3, b0, b1, b2, b3, b4);                                                                             \
        b0 = ROL((a##02 ^ d2), 62), b1 = ROL((a##13 ^ d3), 55), b2 = ROL((a##24 ^ d4), 39);                            \
        b3 = ROL((a##30 ^ d0), 41), b4 = ROL((a##41 ^ d1), 2);                                                         \
        CHI_ROW(e, 4, b0, b1, b2, b3, b4);                                                                             \
    } while (0)

/* The last `rounds` of the 24 rounds. */
void keccak_f1600(uint64_t s[25], size_t rounds) {
    DECLARE_LANES(uint64_t, a);
    DECLARE_LANES(uint64_t, e);
    LOAD_LANES(a, s);
    for (size_t i = 24 - rounds; i < 24; i++) {
        ROUND(uint64_t, ROL64, a, e, iota_64[i]);
        COPY_LANES(a, e);
    }
    STORE_LANES(s, a);
}

/* Absorbs whole blocks of the SHAKE128 rate. */
void keccak_absorb_168(uint64_t s[25], const uint64_t *words, size_t blocks, size_t rounds) {
    for (; blocks; blocks--, words += 21) {
        for (size_t i = 0; i < 21; i++)
            s[i] ^= words[i];
        keccak_f1600(s, rounds);
    }
}

/* Two states, one after the other. */
void keccak_f1600_pair(uint64_t s[25], uint64_t t[25], size_t rounds) {
    keccak_f1600(s, rounds);
    keccak_f1600(t, rounds);
}

void keccak_f800(uint32_t s[25]) {
    DECLARE_LANES(uint32_t, a);
    DECLARE_LANES(uint32_t, e);
    LOAD_LANES(a, s);
    for (size_t i = 0; i < 22; i++) {
        ROUND(uint32_t, ROL32, a, e, iota_64[i]);
        COPY_LANES(a, e);
    }
    STORE_LANES(s, a);
}

/* The definition with loops and computed offsets, for lanes of 32 or 64 bits: what the fast ones must equal. */
void keccak_reference(uint64_t s[25], unsigned width, size_t rounds) {
    size_t total = width == 64 ? 24 : 22;
    uint64_t all = width == 64 ? ~0ull : 0xffffffffull;
    for (size_t round = total - rounds; round < total; round++) {
        uint64_t c[5], b[25];
        for (size_t x = 0; x < 5; x++)
            c[x] = s[x] ^ s[x + 5] ^ s[x + 10] ^ s[x + 15] ^ s[x + 20];
        for (size_t i = 0; i < 25; i++) {
            uint64_t right = c[(i + 1) % 5];
            s[i] ^= c[(i + 4) % 5] ^ ((right << 1 | right >> (width - 1)) & all);
        }
        b[0] = s[0];
        for (size_t t = 0, x = 1, y = 0; t < 24; t++) {
            unsigned offset = (unsigned)((t + 1) * (t + 2) / 2 % width);
            uint64_t v = s[5 * y + x];
            size_t down = (2 * x + 3 * y) % 5;
            b[5 * down + y] = offset ? (v << offset | v >> (width - offset)) & all : v;
            x = y, y = down;
        }
        for (size_t i = 0; i < 25; i++)
            s[i] = (b[i] ^ (~b[i / 5 * 5 + (i + 1) % 5] & b[i / 5 * 5 + (i + 2) % 5])) & all;
        s[0] ^= iota_64[round] & all;
    }
}

void keccak_start(keccak_sponge *k, size_t rate) {
    memset(k, 0, sizeof *k);
    k->rate = rate;
}

void keccak_absorb(keccak_sponge *k, const uint8_t *p, size_t n) {
    if (k->rate == 168 && k->at == 0) {
        for (; n >= 168; n -= 168, p += 168) {
            uint64_t words[21] = {0};
            for (size_t i = 0; i < 168; i++)
                words[i / 8] |= (uint64_t)p[i] << (8 * (i % 8));
            keccak_absorb_168(k->lanes, words, 1, 24);
        }
    }
    for (size_t i = 0; i < n; i++) {
        k->lanes[k->at / 8] ^= (uint64_t)p[i] << (8 * (k->at % 8));
        if (++k->at == k->rate) {
            keccak_f1600(k->lanes, 24);
            k->at = 0;
        }
    }
}

void keccak_squeeze_first(keccak_sponge *k, uint8_t domain, uint8_t *out, size_t n) {
    k->lanes[k->at / 8] ^= (uint64_t)domain << (8 * (k->at % 8));
    k->lanes[k->rate / 8 - 1] ^= 0x80ull << 56;
    keccak_f1600(k->lanes, 24);
    k->at = 0;
    for (size_t i = 0; i < n; i++) {
        if (k->at == k->rate) {
            keccak_f1600(k->lanes, 24);
            k->at = 0;
        }
        out[i] = (uint8_t)(k->lanes[k->at / 8] >> (8 * (k->at % 8)));
        k->at++;
    }
}

void keccak_sha3(uint8_t *digest, size_t digest_bytes, const uint8_t *in, size_t n) {
    keccak_sponge k;
    keccak_start(&k, 200 - 2 * digest_bytes);
    keccak_absorb(&k, in, n);
    keccak_squeeze_first(&k, 6, digest, digest_bytes);
}

void keccak_shake128(uint8_t *out, size_t out_bytes, const uint8_t *in, size_t n) {
    keccak_sponge k;
    keccak_start(&k, 168);
    keccak_absorb(&k, in, n);
    keccak_squeeze_first(&k, 0x1f, out, out_bytes);
}

/* A 12-round binary tree over leaves of 16 lanes; the two children of a node are permuted together. */
void keccak_tree(uint64_t root[4], const uint64_t *leaves, size_t log2_count) {
    uint64_t left[25] = {0}, right[25] = {0};
    if (log2_count == 0) {
        memcpy(left, leaves, 16 * sizeof leaves[0]);
        left[16] = 3;
        keccak_f1600(left, 12);
    } else if (log2_count == 1) {
        memcpy(left, leaves, 16 * sizeof leaves[0]);
        memcpy(right, leaves + 16, 16 * sizeof leaves[0]);
        left[16] = right[16] = 3;
        keccak_f1600_pair(left, right, 12);
        memcpy(left + 4, right, 4 * sizeof left[0]);
        memset(left + 8, 0, 17 * sizeof left[0]);
        left[8] = 5;
        keccak_f1600(left, 12);
    } else {
        keccak_tree(left, leaves, log2_count - 1);
        keccak_tree(left + 4, leaves + ((size_t)16 << (log2_count - 1)), log2_count - 1);
        left[8] = 5;
        keccak_f1600(left, 12);
    }
    memcpy(root, left, 4 * sizeof root[0]);
}

static bool starts_with(const uint8_t *digest, uint64_t expected) {
    uint64_t got = 0;
    for (int i = 0; i < 8; i++)
        got = got << 8 | digest[i];
    return got == expected;
}

int keccak_selftest(void) {
    uint8_t message[1000], digest[64];
    uint64_t s[25], t[25], slow[25], wide[25], leaves[64], root[4], again[4];
    uint32_t narrow[25] = {0};
    for (size_t i = 0; i < sizeof message; i++)
        message[i] = (uint8_t)(i * 7);
    keccak_sha3(digest, 32, (const uint8_t *)"abc", 3);
    if (!starts_with(digest, 0x3a985da74fe225b2ull))
        return 1;
    keccak_sha3(digest, 32, message, 1000);
    if (!starts_with(digest, 0xdff46ff5ed9e8d28ull))
        return 2;
    keccak_sha3(digest, 64, message, 1000);
    if (!starts_with(digest, 0xfc789f726d84fa28ull))
        return 3;
    keccak_shake128(digest, 32, (const uint8_t *)"abc", 3);
    if (!starts_with(digest, 0x5881092dd818bf5cull))
        return 4;
    keccak_shake128(digest, 32, message, 1000);
    if (!starts_with(digest, 0x36514c827683dd1bull))
        return 5;
    for (size_t i = 0; i < 25; i++) {
        s[i] = slow[i] = i * 0x9e3779b97f4a7c15ull;
        t[i] = ~s[i];
        narrow[i] = (uint32_t)s[i];
        wide[i] = narrow[i];
    }
    keccak_f800(narrow);
    keccak_reference(wide, 32, 22);
    for (size_t i = 0; i < 25; i++)
        if (narrow[i] != wide[i])
            return 6;
    keccak_f1600_pair(s, t, 12);
    keccak_reference(slow, 64, 12);
    if (memcmp(s, slow, sizeof s))
        return 7;
    for (size_t i = 0; i < 25; i++)
        slow[i] = ~(i * 0x9e3779b97f4a7c15ull);
    keccak_f1600(slow, 12);
    if (memcmp(t, slow, sizeof t))
        return 8;
    for (size_t i = 0; i < 64; i++)
        leaves[i] = i * i;
    keccak_tree(root, leaves, 2);
    leaves[63] ^= 1;
    keccak_tree(again, leaves, 2);
    return memcmp(root, again, sizeof root) ? 0 : 9;
}
