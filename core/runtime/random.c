/* core/runtime/random.c - see random.h. The constants are the paper's.
 *
 * The counter is (position, stream) and the key is the seed, so the generator has no state to save:
 * the sampler computes the number of a token from the request alone. 53 bits of the first two words
 * of a block make the double.
 */
#include "core/runtime/random.h"

void random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]};
    uint32_t k0 = key[0], k1 = key[1];

    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c[0];
        const uint64_t p1 = (uint64_t)0xCD9E8D57u * c[2];
        const uint32_t c1 = c[1], c3 = c[3];

        c[0] = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c[1] = (uint32_t)p1;
        c[2] = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c[3] = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++)
        out[i] = c[i];
}

static double uniform(uint64_t seed, uint32_t pos, uint32_t stream)
{
    const uint32_t counter[4] = {pos, stream, 0, 0};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t bits[4];

    random_philox(counter, key, bits);
    return (double)(((uint64_t)bits[0] << 21) ^ (bits[1] >> 11)) * 0x1p-53;
}

double random_uniform(uint64_t seed, uint32_t pos)
{
    return uniform(seed, pos, 0);
}

double random_uniform_second(uint64_t seed, uint32_t pos)
{
    return uniform(seed, pos, 1);
}
