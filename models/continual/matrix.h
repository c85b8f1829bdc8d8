/* The accuracy matrix of continual learning and what follows from it.
 *
 * R[t][q] is the accuracy on task q after the training of the t-th task (Lopez-Paz & Ranzato 2017), T tasks:
 *
 *   ACC         mean_q R[T−1][q]
 *   BWT         mean_{q<T−1} (R[T−1][q] − R[at(q)][q]), at(q) the time at which q itself was trained
 *   forgetting  mean_{q<T−1} (max_{t<T−1} R[t][q] − R[T−1][q])                    (Chaudhry et al. 2018)
 *
 * where the mean over q leaves out the task trained last and those not trained yet. The best accuracy is sought before the last
 * training, as in that paper (not among all t, where forgetting could not be below 0): a task that the last one taught better is
 * forgotten by less than nothing. Where a site trains its tasks in another order
 * (staggered), q is a task by its number and the time t the place in this site's own order. NaN: not measured. Pure. */
#ifndef MODELS_CONTINUAL_MATRIX_H
#define MODELS_CONTINUAL_MATRIX_H

#include <stddef.h>

struct continual_summary {
  double acc, bwt, forgetting; /* NaN: there is none */
};

/* r [n_times][n_tasks], row-major; trained [n_times]: which task each row ended. Accuracies are means over the tasks trained so
 * far. */
struct continual_summary matrix_summary(const double *r, const size_t *trained, size_t n_times, size_t n_tasks);

#endif
