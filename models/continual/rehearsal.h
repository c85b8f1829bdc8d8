/* The replay buffer: samples of the tasks that are over, as they were stored, for rehearsal.
 *
 *   balanced    a reservoir for each class of at most `a_class` samples
 *   reservoir   one reservoir over all that came, of as many slots
 *
 * A reservoir of m slots holds, after n samples, each of them with probability m/n (Vitter 1985, algorithm R). The draw for
 * the n-th one follows from the seed and n alone, so that no generator has to be kept; the same samples in the same order make
 * the same buffer. Inputs stay in the training set's source type and are standardised by its numbers when they are gathered.
 *
 * Memory: all of it from rehearsal_open. The learner's; its thread only. */
#ifndef MODELS_CONTINUAL_REHEARSAL_H
#define MODELS_CONTINUAL_REHEARSAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/rng.h"
#include "models/data/dataset.h"

enum replay_rule { REPLAY_BALANCED, REPLAY_RESERVOIR };

struct rehearsal;

/* For samples like those of `like`, which is only looked at. ERR_LIMIT: more than 1 GiB; ERR_NO_MEMORY. */
MUST_USE enum err rehearsal_open(enum replay_rule rule, size_t a_class, size_t n_classes, const struct dataset *like,
                                 uint64_t seed, struct rehearsal **out_buffer);
void rehearsal_free(struct rehearsal *b);

/* Bytes that rehearsal_open takes. ERR_LIMIT: above 1 GiB. */
MUST_USE enum err rehearsal_memory(size_t a_class, size_t n_classes, size_t n_inputs, bool has_bytes,
                                   size_t *out_bytes);

/* Offers the samples index[0 … n−1] of a training set, in this order. ERR_IO, where they are on disk: those before it
 * are taken. */
MUST_USE enum err rehearsal_offer(struct rehearsal *b, const struct dataset *from, const uint32_t *index, size_t n);

/* Samples that are held, and of one class. */
size_t rehearsal_samples(const struct rehearsal *b);
size_t rehearsal_samples_of(const struct rehearsal *b, size_t class);

/* n samples drawn with replacement, each held one as likely: inputs [n][n_inputs] standardised as `like` does, labels [n]. Not of
 * an empty buffer. */
void rehearsal_draw(struct rehearsal *b, const struct dataset *like, struct rng *rng, size_t n, float *out_x,
                    uint16_t *out_labels);

/* Its state as bytes: counts, labels, inputs. */
size_t rehearsal_bytes(const struct rehearsal *b);
size_t rehearsal_bound(size_t a_class, size_t n_classes, size_t n_inputs); /* at most, of what can be opened */
void rehearsal_write(const struct rehearsal *b, struct writer *w);

/* Of all that is left in the cursor. ERR_CORRUPT: not of such a buffer; ERR_TRUNCATED, ERR_TRAILING. After an error the buffer is
 * as it was. */
MUST_USE enum err rehearsal_read(struct rehearsal *b, struct cursor *c);

#endif
