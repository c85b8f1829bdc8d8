/* A peer that speaks other protocol versions: other_version KEY_FILE SWARM PEER_KEY tcp://host:port [VERSION]
 *
 * Only this one (99), and runs no job. It dials one agent again and again until it is ended, and prints what it makes of the answers. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/must.h"
#include "crypto/key_file.h"
#include "crypto/key_text.h"
#include "crypto/names.h"
#include "crypto/random.h"
#include "gossip/gossip.h"

static uint64_t now_ms(void *context) {
  (void)context;
  struct timespec t;
  MUST(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void on_session(void *context, size_t peer, bool is_up, enum err reason) {
  (void)context, (void)peer;
  printf("session %s: %s\n", is_up ? "up" : "down", err_name(reason));
}

static void on_ask_job(void *context, size_t peer, const struct digest *job) {
  (void)context, (void)peer, (void)job;
}

int main(int argc, char **argv) {
  MUST(argc == 5 || argc == 6);
  uint16_t version = argc == 6 ? (uint16_t)strtoul(argv[5], NULL, 10) : 99;
  char why[MAX_REASON_BYTES] = "";
  struct identity *identity;
  struct gossip_peer_config peer = {.name = "peer", .address = argv[4]};
  if (random_open() || key_file_open(argv[1], NULL, NULL, &identity, why) || key_text_read(argv[3], &peer.key)) {
    fprintf(stderr, "other_version: %s\n", why);
    return 1;
  }
  struct gossip_config config = {.identity = identity,
                                 .boot_epoch = 1,
                                 .peers = &peer,
                                 .n_peers = 1,
                                 .payload_max_bytes = 1 << 20,
                                 .version_min = version,
                                 .version_max = version,
                                 .now_ms = now_ms};
  struct swarm_id swarm = swarm_id(argv[2]);
  memcpy(config.swarm, swarm.bytes, sizeof config.swarm);
  static const struct gossip_events events = {.on_session = on_session, .on_ask_job = on_ask_job};
  struct gossip *gossip;
  if (gossip_open(&config, &events, &gossip, why)) {
    fprintf(stderr, "other_version: %s\n", why);
    return 1;
  }
  for (struct gossip_note note;;) {
    link_poll(gossip, NULL, 0, 1000);
    while (gossip_note_take(gossip, &note))
      printf("%s: %s\n", err_name(note.reason), note.text);
    fflush(stdout);
  }
}
