/* The pre-training update: what a fixed number of mini-batches from the job's first weights do with this site's data, as a
 * sketch (FlexCFL, Duan et al. 2022: 50 of them). The rate is constant and the order of samples that of seed 0 everywhere, so that
 * sites with the same data have the same sketch; where tasks come in turn all count at once. Thread: the trainer's. */
#ifndef MODELS_CLUSTERING_PRETRAINING_H
#define MODELS_CLUSTERING_PRETRAINING_H

#include "models/clustering/sketch.h"
#include "models/learner.h"

/* `like`: the job's learner, whose first weights, work and kernels are taken; its model is not touched: there is another one for as
 * long as it takes. Errors as learner_open, learner_attach, learner_train and sketch_of. */
MUST_USE enum err pretraining_sketch(const struct learner_config *like, uint32_t steps, const struct dataset *train,
                                     const struct digest *seed, const struct work_hook *hook,
                                     struct sketch *out_sketch);

#endif
