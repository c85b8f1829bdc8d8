#include "models/merging/rule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/must.h"
#include "models/floats.h"
#include "models/kernels/distance.h"
#include "models/kernels/order.h"
#include "models/merging/judgement.h"

/* Floats of each model that are looked at together: they stay near while rows are made of them. */
enum { TILE = DISTANCE_TILE };

/* A squared distance that is no number a float can be made of counts as this. */
static const double FARTHEST = 1e200;

struct rule_space {
  size_t n_most; /* points: oneself, the peers, the model before its training and after it */
  double *doubles;
  const float **pointers;
  uint32_t *numbers;
  bool *clipped; /* [n_most] of points, by the rule */
  struct mean_term *terms;
  float *tiles; /* [n_most][TILE] of points or rows, and one more for what comes out; NULL: not wanted */

  /* within them */
  double *factors, *coefs;       /* [n_most] of points: what shortens their difference, and what they weigh */
  double *row_coefs;             /* [n_most] */
  double *scratch;               /* [2·n_most] */
  double *squares;               /* [n_most²] of pairs */
  double *mixing;                /* [n_most²] rows as mixtures of points */
  double *product, *row_squares; /* [n_most²] */
  const float **points, **rows;  /* [n_most]; rows: of a tile */
  uint32_t *used, *order;        /* [n_most] which peer a point is, of oneself 0; of buckets */
};

/* One merge. */
struct judging {
  struct rule_space *s;
  const struct rule_setting *setting;
  const struct rule_merge *m;
  const struct rule *rule;
  size_t n;     /* models: oneself and the peers that take part */
  size_t n_all; /* points: for trust with the model before its training and after it */
  size_t f;
  size_t n_rows; /* what is judged: models or mixtures of them */
  bool is_mixed;
  const double *squares; /* [n_rows][n_rows]; trust: [n_all][n_all] */
};

enum { LOOKS_AT_PAIRS = 1, TAKES_BUCKETS = 2, IS_MIXED = 4, IS_MEDIAN = 8, IS_TRIMMED = 16, LOOKS_BEFORE = 32 };

struct rule {
  const char *name;
  unsigned is;
  size_t a_bad, least;              /* it needs a_bad · f + least rows */
  void (*judge)(struct judging *j); /* sets row_coefs, clipped; NULL: an order statistic */
};

/* ---- linear rules ------------------------------------------------------------------------------------------------- */

static const struct rule_peer *peer_of(const struct judging *j, size_t point) {
  return &j->m->peers[j->s->used[point]];
}

static double distance_of(const struct judging *j, size_t point) {
  return fmin(peer_of(j, point)->distance, j->m->bound);
}

static void judge_mean(struct judging *j) {
  for (size_t i = 1; i < j->n; i++)
    j->s->row_coefs[i] = peer_of(j, i)->weight;
}

static double clip_radius(const struct judging *j) {
  const size_t n_peers = j->n - 1, half = (n_peers + 1) / 2, believed = n_peers - j->f;
  double *distances = j->s->scratch;
  for (size_t i = 0; i < n_peers; i++)
    distances[i] = distance_of(j, i + 1);
  return judge_smallest(distances, n_peers, half < believed ? half : believed, distances + n_peers);
}

static void judge_clip(struct judging *j) {
  if (j->n == 1)
    return;
  double most = clip_radius(j);
  for (size_t i = 1; i < j->n; i++) {
    double d = distance_of(j, i);
    j->s->clipped[i] = d > most;
    j->s->row_coefs[i] = peer_of(j, i)->weight * (d > most ? most / d : 1);
  }
}

static void judge_one(struct judging *j) {
  judge_krum(j->squares, j->n_rows, j->f, 1, j->s->scratch, j->s->row_coefs);
}

static void judge_many(struct judging *j) {
  judge_krum(j->squares, j->n_rows, j->f, j->n_rows - j->f, j->s->scratch, j->s->row_coefs);
}

static void judge_weiszfeld(struct judging *j) {
  judge_geometric_median(j->squares, j->n_rows, j->s->scratch, j->s->row_coefs);
}

static void judge_centred(struct judging *j) {
  judge_centred_clip(j->squares, j->n_rows, j->s->scratch, j->s->row_coefs, j->s->clipped);
}

/* ---- trust: point n is the model before the training, point n + 1 the one after it ---- */

static const double *to_before(const struct judging *j) {
  return j->squares + j->n * j->n_all; /* ‖y_i‖² */
}

static const double *to_after(const struct judging *j) {
  return j->squares + (j->n + 1) * j->n_all;
}

static double root_of(const struct judging *j) {
  return to_before(j)[j->n + 1];
}

/* max(0, cos(y_i, y_own)), the root being y_own. A step that is next to nothing beside it has the direction of its rounding. */
static double trust_of(const struct judging *j, size_t i) {
  static const double LEAST = 1e-10; /* of squares, which are exact to about 1e-7 of the root's */
  double root = root_of(j), own = to_before(j)[i];
  if (own <= LEAST * root)
    return 0;
  return fmin(1, fmax(0, (own + root - to_after(j)[i]) / 2 / sqrt(own * root)));
}

static void judge_trust(struct judging *j) {
  double *coefs = j->s->row_coefs, trusted = 1;
  if (root_of(j) <= 0)
    return;
  for (size_t i = 1; i < j->n; i++)
    trusted += coefs[i] = trust_of(j, i);
  for (size_t i = 1; i < j->n; i++)
    coefs[i] /= trusted;
}

/* From shares t_i of y_i that are as long as the root, in place, to coefficients of points: x + Σ t_i (y_i ‖y_own‖/‖y_i‖ − y_own) in
 * differences to x̂. */
static void stretch(struct judging *j) {
  double *coefs = j->s->coefs, shares = 0, said = 0;
  for (size_t i = 1; i < j->n; i++) {
    shares += coefs[i];
    coefs[i] *= coefs[i] > 0 ? sqrt(root_of(j) / to_before(j)[i]) : 0;
    said += coefs[i];
  }
  coefs[j->n] = shares - said;
  coefs[j->n + 1] = -shares;
}

static const struct rule rules[N_MERGE_RULES] = {
    [RULE_MEAN] = {"mean", 0, 0, 1, judge_mean},
    [RULE_MEDIAN] = {"median", TAKES_BUCKETS | IS_MEDIAN, 2, 1, NULL},
    [RULE_TRIMMED] = {"trimmed", TAKES_BUCKETS | IS_TRIMMED, 2, 1, NULL},
    [RULE_KRUM] = {"krum", LOOKS_AT_PAIRS | TAKES_BUCKETS, 2, 3, judge_one},
    [RULE_MULTI_KRUM] = {"multi-krum", LOOKS_AT_PAIRS | TAKES_BUCKETS, 2, 3, judge_many},
    [RULE_GEOMETRIC_MEDIAN] = {"geometric-median", LOOKS_AT_PAIRS | TAKES_BUCKETS, 2, 1, judge_weiszfeld},
    [RULE_CENTRED_CLIP] = {"centred-clip", LOOKS_AT_PAIRS | TAKES_BUCKETS, 2, 1, judge_centred},
    [RULE_CLIP] = {"clip", 0, 1, 2, judge_clip},
    [RULE_NNM] = {"nnm", LOOKS_AT_PAIRS | IS_MIXED | IS_TRIMMED, 2, 1, NULL},
    [RULE_TRUST] = {"trust", LOOKS_AT_PAIRS | LOOKS_BEFORE, 0, 1, judge_trust},
    [RULE_ROBUST] = {"robust", LOOKS_AT_PAIRS | IS_MIXED | IS_TRIMMED, 2, 1, NULL}, /* clip or nnm: see rule_of */
};

const char *merge_rule_name(enum merge_rule rule) {
  return rules[rule].name;
}

size_t merge_rule_least(enum merge_rule rule, size_t f) {
  return rules[rule].a_bad * f + rules[rule].least;
}

bool merge_rule_takes_buckets(enum merge_rule rule) {
  return rules[rule].is & TAKES_BUCKETS;
}

const char *fate_name(enum fate fate) {
  static const char *const names[] = {[FATE_KEPT] = "kept", [FATE_CLIPPED] = "clipped", [FATE_LEFT_OUT] = "left-out"};
  return names[fate];
}

static size_t bucket_of(const struct rule_setting *s) {
  return s->bucket > 1 ? s->bucket : 1;
}

static bool bears(const struct rule_setting *s, size_t n_heard, size_t f) {
  size_t n_rows = (n_heard + bucket_of(s)) / bucket_of(s); /* ⌈(m + 1) / bucket⌉ */
  return merge_rule_least(s->rule, f) <= n_rows;
}

static size_t most_borne(const struct rule_setting *s, size_t n_heard, size_t f) {
  while (f > 0 && !bears(s, n_heard, f))
    f--;
  return f;
}

size_t rule_byzantine(const struct rule_setting *s, size_t n_heard) {
  const struct rule_setting clip = {.rule = RULE_CLIP};
  size_t f = s->byzantine == RULE_A_THIRD ? most_borne(s, n_heard, n_heard / 3) : s->byzantine;
  return rule_that_judges(s, n_heard) == RULE_CLIP ? most_borne(&clip, n_heard, f) : f;
}

enum merge_rule rule_that_judges(const struct rule_setting *s, size_t n_heard) {
  enum { MANY_PEERS = 6, FEW_HEARD = 3 };
  if (s->rule == RULE_MEAN || s->rule == RULE_CLIP || s->rule == RULE_TRUST)
    return s->rule;
  bool is_third = s->byzantine == RULE_A_THIRD;
  size_t f = is_third ? most_borne(s, n_heard, n_heard / 3) : s->byzantine;
  bool is_few = s->rule == RULE_ROBUST && (s->n_configured < MANY_PEERS || n_heard < FEW_HEARD);
  if (is_few || !bears(s, n_heard, f) || (is_third && f == 0))
    return RULE_CLIP;
  return s->rule == RULE_ROBUST ? RULE_NNM : s->rule;
}

/* ---- room --------------------------------------------------------------------------------------------------------- */

enum { VECTORS = 5, MATRICES = 4 /* of doubles */, ARRAYS = 7, OTHER_POINTS = 3 /* than peers */ };

struct room {
  size_t n; /* points */
  size_t n_squares, n_tiles;
};

static struct room room_of(const struct rule_setting *setting, size_t n_peers) {
  const unsigned is = rules[setting->rule].is;
  const bool pairs = is & LOOKS_AT_PAIRS, mixes = is & IS_MIXED || bucket_of(setting) > 1;
  struct room room = {.n = n_peers + OTHER_POINTS};
  room.n_squares = pairs || mixes ? MATRICES : 0;
  room.n_tiles = pairs || is & (IS_MEDIAN | IS_TRIMMED) ? room.n + 1 : 0;
  return room;
}

static size_t n_doubles(const struct room *r) {
  return VECTORS * r->n + r->n_squares * r->n * r->n;
}

size_t rule_space_bytes(const struct rule_setting *setting, size_t n_peers, size_t *out_n_arrays) {
  const struct room r = room_of(setting, n_peers);
  *out_n_arrays = ARRAYS;
  return sizeof(struct rule_space) + n_doubles(&r) * sizeof(double) + 2 * r.n * (sizeof(float *) + sizeof(uint32_t)) +
         r.n * (sizeof(bool) + sizeof(struct mean_term)) + r.n_tiles * TILE * sizeof(float);
}

static void partition(struct rule_space *s, size_t n_squares) {
  const size_t n = s->n_most;
  double **const vectors[] = {&s->factors, &s->coefs, &s->row_coefs};
  double **const matrices[MATRICES] = {&s->squares, &s->mixing, &s->product, &s->row_squares};
  double *at = s->doubles;
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++, at += n)
    *vectors[i] = at;
  s->scratch = at;
  at += 2 * n;
  for (size_t i = 0; i < n_squares; i++, at += n * n)
    *matrices[i] = at;
  s->points = s->pointers;
  s->rows = s->pointers + n;
  s->used = s->numbers;
  s->order = s->numbers + n;
}

enum err rule_space_new(const struct rule_setting *setting, size_t n_peers, struct rule_space **out_space) {
  const struct room r = room_of(setting, n_peers);
  MUST(n_peers <= MAX_PEERS);
  struct rule_space *s = calloc(1, sizeof *s);
  if (!s)
    return ERR_NO_MEMORY;
  s->n_most = r.n;
  s->doubles = calloc(n_doubles(&r), sizeof *s->doubles);
  s->pointers = calloc(2 * r.n, sizeof *s->pointers);
  s->numbers = calloc(2 * r.n, sizeof *s->numbers);
  s->clipped = calloc(r.n, sizeof *s->clipped);
  s->terms = calloc(r.n, sizeof *s->terms);
  s->tiles = r.n_tiles > 0 ? floats_new(r.n_tiles * TILE) : NULL;
  if (!s->doubles || !s->pointers || !s->numbers || !s->clipped || !s->terms || (r.n_tiles > 0 && !s->tiles)) {
    rule_space_free(s);
    return ERR_NO_MEMORY;
  }
  partition(s, r.n_squares);
  *out_space = s;
  return ERR_OK;
}

void rule_space_free(struct rule_space *s) {
  if (!s)
    return;
  free(s->doubles);
  free(s->pointers);
  free(s->numbers);
  free(s->clipped);
  free(s->terms);
  free(s->tiles);
  free(s);
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

/* A tile of point i under the bound: the copy itself where that does nothing. */
static const float *point_tile(const struct judging *j, size_t i, size_t at, size_t length) {
  const struct rule_space *s = j->s;
  if (s->factors[i] >= 1)
    return s->points[i] + at;
  const struct mean_term term = {s->points[i] + at, s->factors[i]};
  const float *own = j->m->own + at;
  (void)mean_fastest()->sum(own, own, &term, 1, length,
                            s->tiles + i * TILE); /* what is not finite is seen in the end */
  return s->tiles + i * TILE;
}

/* A tile of row r: a point, or a mixture of them. */
static const float *row_tile(const struct judging *j, size_t r, size_t at, size_t length) {
  const struct rule_space *s = j->s;
  if (!j->is_mixed)
    return point_tile(j, r, at, length);
  const float *own = j->m->own + at;
  size_t n_terms = 0;
  for (size_t i = 1; i < j->n; i++)
    if (s->mixing[r * j->n + i] > 0)
      s->terms[n_terms++] = (struct mean_term){s->points[i] + at, s->mixing[r * j->n + i] * s->factors[i]};
  (void)mean_fastest()->sum(own, own, s->terms, n_terms, length, s->tiles + r * TILE);
  return s->tiles + r * TILE;
}

static size_t tile_length(size_t at, size_t end) {
  return end - at < TILE ? end - at : TILE;
}

static void add_tile_squares(struct judging *j, size_t at, size_t length) {
  const struct distance_kernel *k = distance_fastest();
  const size_t n = j->n_all;
  for (size_t i = 0; i < n; i++)
    j->s->rows[i] = point_tile(j, i, at, length);
  for (size_t a = 0; a < n; a++)
    for (size_t b = a + 1; b < n; b++)
      j->s->squares[a * n + b] += k->tile(j->s->rows[a], j->s->rows[b], length);
}

/* ‖p_a − p_b‖² of all points, of what is learnt. */
static void measure_pairs(struct judging *j) {
  const size_t n = j->n_all;
  double *squares = j->s->squares;
  memset(squares, 0, n * n * sizeof *squares);
  for (size_t k = 0; k <= j->m->statistics->n; k++) {
    size_t start, end;
    learnt_range(j->m->statistics, k, j->m->n_values, &start, &end);
    for (size_t at = start; at < end; at += TILE)
      add_tile_squares(j, at, tile_length(at, end));
  }
  for (size_t a = 0; a < n; a++)
    for (size_t b = a + 1; b < n; b++) {
      double square = squares[a * n + b];
      squares[a * n + b] = squares[b * n + a] = square < FARTHEST ? square : FARTHEST;
    }
}

static void make_rows(struct judging *j) {
  struct rule_space *s = j->s;
  const size_t bucket = j->rule->is & TAKES_BUCKETS ? bucket_of(j->setting) : 1;
  j->n_rows = j->n;
  j->is_mixed = j->rule->is & IS_MIXED || bucket > 1;
  if (j->rule->is & IS_MIXED)
    judge_nearest(s->squares, j->n, j->n - j->f, s->scratch, s->mixing);
  else if (j->is_mixed)
    j->n_rows = judge_buckets(j->n, bucket, j->m->seed, s->order, s->mixing);
  j->squares = s->squares;
  if (!j->is_mixed || !j->rule->judge)
    return;
  judge_mixed(s->squares, j->n, s->mixing, j->n_rows, s->product, s->row_squares);
  j->squares = s->row_squares;
}

/* ---- one merge ----------------------------------------------------------------------------------------------------- */

/* Oneself, and who takes part. The mean counts all, whatever they weigh. */
static void find_points(struct judging *j) {
  struct rule_space *s = j->s;
  s->points[0] = j->m->own;
  s->factors[0] = 1;
  s->used[0] = 0;
  j->n = 1;
  for (size_t i = 0; i < j->m->n_peers; i++) {
    struct rule_peer *p = &j->m->peers[i];
    bool is_long = p->distance > j->m->bound;
    p->fate = is_long ? FATE_CLIPPED : FATE_KEPT;
    p->share = 0;
    if (p->weight <= 0 && j->setting->rule != RULE_MEAN)
      continue;
    s->points[j->n] = p->values;
    s->factors[j->n] = is_long ? j->m->bound / p->distance : 1;
    s->used[j->n++] = (uint32_t)i;
  }
}

static void add_root(struct judging *j) {
  const float *const ends[] = {j->m->before, j->m->x};
  for (size_t i = 0; i < 2; i++) {
    j->s->points[j->n_all] = ends[i];
    j->s->factors[j->n_all++] = 1;
  }
}

static void begin(struct judging *j) {
  struct rule_space *s = j->s;
  find_points(j);
  struct rule_setting now = *j->setting;
  if (now.rule == RULE_TRUST && !j->m->before)
    now.rule = RULE_CLIP;
  j->rule = &rules[rule_that_judges(&now, j->n - 1)];
  j->f = rule_byzantine(&now, j->n - 1);
  j->n_all = j->n;
  if (j->rule->is & LOOKS_BEFORE)
    add_root(j);
  for (size_t i = 0; i < s->n_most; i++)
    s->row_coefs[i] = s->coefs[i] = 0;
  memset(s->clipped, 0, s->n_most * sizeof *s->clipped);
}

static double share_at_most(const struct judging *j, double share) {
  return j->setting->max_share > 0 ? fmin(share, j->setting->max_share) : share;
}

/* What each point weighs, from what each row does. */
static void weigh_points(struct judging *j) {
  struct rule_space *s = j->s;
  for (size_t i = 0; i < j->n_all; i++) {
    double sum = j->is_mixed ? 0 : s->row_coefs[i];
    for (size_t r = 0; j->is_mixed && r < j->n_rows; r++)
      sum += s->row_coefs[r] * s->mixing[r * j->n + i];
    s->coefs[i] = sum;
  }
  for (size_t i = 1; i < j->n; i++)
    s->coefs[i] = share_at_most(j, s->coefs[i]);
}

/* Of mixtures: near enough to half of the models. */
static bool is_chosen(const struct judging *j, size_t point) {
  if (j->rule->judge)
    return j->s->coefs[point] > 0 || j->rule == &rules[RULE_MEAN];
  size_t n_among = 0;
  for (size_t r = 0; r < j->n_rows && j->rule->is & IS_MIXED; r++)
    n_among += j->s->mixing[r * j->n + point] > 0;
  return 2 * n_among >= j->n_rows || !(j->rule->is & IS_MIXED);
}

static void tell_fates(struct judging *j) {
  for (size_t i = 1; i < j->n; i++) {
    struct rule_peer *p = &j->m->peers[j->s->used[i]];
    p->share = j->s->coefs[i] * j->s->factors[i];
    if (j->s->clipped[i] && !j->is_mixed)
      p->fate = FATE_CLIPPED;
    if (!is_chosen(j, i))
      p->fate = FATE_LEFT_OUT;
  }
}

/* x + γ Σ a_i (p_i − x̂). */
static bool add_up(const struct judging *j, float *out_x) {
  const struct rule_space *s = j->s;
  const struct rule_merge *m = j->m;
  size_t n_terms = 0;
  for (size_t i = 1; i < j->n_all; i++) {
    double weight = m->gamma * s->coefs[i];
    if (i < j->n && !is_chosen(j, i))
      continue;
    s->terms[n_terms++] = (struct mean_term){s->points[i], s->factors[i] < 1 ? weight * s->factors[i] : weight};
  }
  return mean_fastest()->sum(m->x, m->own, s->terms, n_terms, m->n_values, out_x);
}

/* x + γ (the statistic − x̂). */
static bool order_up(const struct judging *j, size_t trim, float *out_x) {
  struct rule_space *s = j->s;
  const struct rule_merge *m = j->m;
  float *result = s->tiles + (s->n_most) * TILE;
  const struct mean_term term = {result, m->gamma};
  bool finite = true;
  for (size_t at = 0; at < m->n_values; at += TILE) {
    size_t length = tile_length(at, m->n_values);
    for (size_t r = 0; r < j->n_rows; r++)
      s->rows[r] = row_tile(j, r, at, length);
    if (j->rule->is & IS_MEDIAN)
      order_fastest()->median(s->rows, j->n_rows, length, result);
    else
      order_fastest()->trimmed(s->rows, j->n_rows, length, trim, result);
    finite = mean_fastest()->sum(m->x + at, m->own + at, &term, 1, length, out_x + at) && finite;
  }
  return finite;
}

/* A mean in disguise, which max_share must cap: nothing is trimmed, or there is no middle of more than two. */
static bool is_mean(const struct judging *j) {
  return j->rule->is & IS_MEDIAN ? j->n_rows <= 2 : j->f == 0;
}

static void judge_equal(struct judging *j) {
  for (size_t r = 0; r < j->n_rows; r++)
    j->s->row_coefs[r] = 1.0 / (double)j->n_rows;
}

/* Back onto a step from x of max_share · B, where that of an order statistic is longer. */
static bool hold_back(const struct judging *j, float *out_x) {
  const struct rule_merge *m = j->m;
  const double most = m->gamma * j->setting->max_share * m->bound;
  float *result = j->s->tiles + j->s->n_most * TILE;
  bool finite = true;
  if (j->setting->max_share <= 0 || !isfinite(most))
    return true;
  double step = learnt_distance(m->statistics, out_x, m->x, m->n_values);
  const struct mean_term term = {result, most / step};
  for (size_t at = 0; at < m->n_values && step > most; at += TILE) {
    size_t length = tile_length(at, m->n_values);
    memcpy(result, out_x + at, length * sizeof *result);
    finite = mean_fastest()->sum(m->x + at, m->x + at, &term, 1, length, out_x + at) && finite;
  }
  return finite;
}

/* By coordinate without the f at each end, or the middle where f is not known; one of two is no middle. Clip says by how much. */
static enum err trim_statistics(const struct judging *j, float *out_x) {
  const struct rule_merge *m = j->m;
  const size_t middle = (j->n - 1) / 2, trim = j->f > 0 && j->f < middle ? j->f : middle;
  double share = j->rule == &rules[RULE_CLIP] ? 0 : 1;
  for (size_t i = 1; i < j->n && j->rule == &rules[RULE_CLIP]; i++)
    share += m->gamma * share_at_most(j, peer_of(j, i)->weight);
  j->s->points[0] = m->x;
  return statistics_trim(m->statistics, j->n > 2 ? m->policy : STATISTIC_LOCAL, j->s->points, j->n, trim, share, out_x);
}

static enum err merge_statistics(const struct judging *j, float *out_x) {
  const struct rule_merge *m = j->m;
  const struct rule_space *s = j->s;
  if (j->rule != &rules[RULE_MEAN])
    return trim_statistics(j, out_x);
  for (size_t i = 1; i < j->n; i++)
    s->terms[i - 1] = (struct mean_term){s->points[i], m->gamma * peer_of(j, i)->weight};
  return statistics_merge(m->statistics, m->policy, m->x, m->own, s->terms, j->n - 1, out_x);
}

enum err rule_merge(struct rule_space *s, const struct rule_setting *setting, const struct rule_merge *m,
                    float *out_x) {
  struct judging j = {.s = s, .setting = setting, .m = m};
  MUST(m->n_peers + OTHER_POINTS <= s->n_most);
  begin(&j);
  if (j.n == 1 && j.rule != &rules[RULE_MEAN]) {
    memcpy(out_x, m->x, m->n_values * sizeof *out_x);
    return ERR_OK;
  }
  if (j.rule->is & LOOKS_AT_PAIRS)
    measure_pairs(&j);
  make_rows(&j);
  if (j.rule->judge)
    j.rule->judge(&j);
  else
    judge_equal(&j);
  weigh_points(&j);
  tell_fates(&j);
  if (j.rule->is & LOOKS_BEFORE)
    stretch(&j);
  bool finite = j.rule->judge || is_mean(&j) ? add_up(&j, out_x) : order_up(&j, j.f, out_x) && hold_back(&j, out_x);
  return finite ? merge_statistics(&j, out_x) : ERR_MERGE_REFUSED;
}
