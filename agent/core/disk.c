#include "agent/core/disk.h"

/* Entered below so many rounds' room, left from so many on. */
static const uint64_t enter_low = 3, enter_tight = 1, leave_low = 4, leave_tight = 2;

/* Payload and half; then the merged model. */
void disk_forecast(uint64_t link_bytes, uint64_t full_bytes, uint64_t half_arrays, uint64_t *out_publish,
                   uint64_t *out_commit) {
  *out_publish = link_bytes + half_arrays * full_bytes;
  *out_commit = full_bytes;
}

static uint64_t larger(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

void disk_expect(struct disk *d, uint64_t publish_bytes, uint64_t commit_bytes) {
  d->publish_bytes = larger(d->publish_bytes, publish_bytes);
  d->commit_bytes = larger(d->commit_bytes, commit_bytes);
}

uint64_t disk_round_bytes(const struct disk *d) {
  return d->publish_bytes + d->commit_bytes;
}

uint64_t disk_free_bytes(const struct disk *d) {
  if (d->max_bytes == 0)
    return d->room.free_bytes;
  uint64_t left = d->room.used_bytes < d->max_bytes ? d->max_bytes - d->room.used_bytes : 0;
  return left < d->room.free_bytes ? left : d->room.free_bytes;
}

uint64_t disk_rounds_left(const struct disk *d) {
  uint64_t left = disk_free_bytes(d), need = larger(disk_round_bytes(d), 1);
  return left > DISK_RESERVE_BYTES ? (left - DISK_RESERVE_BYTES) / need : 0;
}

/* Letting the older models go makes room for them: only when they fit again as well is it no longer low. */
static enum disk_state judge(const struct disk *d) {
  uint64_t rounds = disk_rounds_left(d);
  if (rounds < enter_tight || (d->state == DISK_TIGHT && rounds < leave_tight))
    return DISK_TIGHT;
  if (rounds < enter_low || (d->state != DISK_OK && rounds < leave_low + d->n_kept))
    return DISK_LOW;
  return DISK_OK;
}

bool disk_measured(struct disk *d, const struct store_room *room, uint64_t now_ms) {
  enum disk_state before = disk_state(d);
  d->room = *room;
  d->is_known = true;
  d->measured_at_ms = now_ms;
  d->state = judge(d);
  return disk_state(d) != before;
}

bool disk_set_halted(struct disk *d, bool is_halted) {
  enum disk_state before = disk_state(d);
  d->is_halted = is_halted;
  return disk_state(d) != before;
}

enum disk_state disk_state(const struct disk *d) {
  return d->is_halted ? DISK_HALTED : d->state;
}

const char *disk_state_name(enum disk_state state) {
  static const char *const names[N_DISK_STATES] = {
      [DISK_OK] = "ok", [DISK_LOW] = "low", [DISK_TIGHT] = "tight", [DISK_HALTED] = "halted"};
  return names[state];
}

uint64_t disk_due_ms(const struct disk *d) {
  if (!d->is_known)
    return 0;
  return disk_state(d) == DISK_OK ? UINT64_MAX : d->measured_at_ms + DISK_MEASURE_MS;
}
