/* Every bound on what another party, a file or a config can make us allocate or loop over. Checked before allocation. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

enum {
  /* people and names */
  MAX_PEERS = 256,
  MAX_JOBS_IN_HELLO = 16, /* as many as an agent can run */
  MAX_NAME_BYTES = 64,    /* agent, peer, job, class and feature names, with the final NUL */
  MAX_ADDRESS_BYTES = 256,
  MAX_REASON_BYTES = 256, /* one sentence shown to people, with the final NUL */
  MAX_PATH_BYTES = 4096,
  MAX_STATE_DIR_BYTES = 480, /* as an absolute path: SQLite takes 512 bytes with the names that it adds */

  /* files that people write */
  MAX_CONFIG_BYTES = 256 * 1024,
  MAX_JOB_TEXT_BYTES = 48 * 1024, /* of a job file that travels: it fits in one frame */
  MAX_KEY_FILE_BYTES = 4096,
  MAX_CSV_COLUMNS = 16384,
  MAX_CSV_FIELD_BYTES = 4096,

  /* models */
  MAX_TENSORS = 4096,
  MAX_RANK = 4,
  MAX_CLASSES = 4096,
  MAX_FEATURES = 1 << 20, /* inputs of a model */
  MAX_SAMPLES = 1 << 27,  /* in one data file */
  MAX_PARTS = 4096,       /* of a public data set */
  MAX_LAYERS = 256,
  MAX_ARCH_BYTES = 4096,
  MAX_PARAMETERS = 1 << 27,
  MAX_BATCH = 4096,

  /* the wire */
  CHUNK_BYTES = 64 * 1024,
  MAX_CHUNKS = 65536,
  FRAME_HEAD_BYTES = 24,
  FRAME_TAG_BYTES = 16,
  MAX_FRAME_PLAIN_BYTES = CHUNK_BYTES + 1024,
  MAX_FRAME_BYTES = 67584, /* what libzmq accepts as one message */
  SOCKET_HWM = 8,
  MAX_GATE_PER_ADDRESS = 8,
  MAX_GATE_TOTAL = 32,
  MAX_SCHEMA_TEXT_BYTES = 16 * 1024,
  MAX_ASK = 8,
  MAX_MEMBERS = 1024,   /* of a swarm that an agent knows of, itself included */
  MAX_INTRODUCED = 512, /* … of whom one peer told it */
  KEEP_PAYLOADS = 8,    /* K: links of the own chain that a peer can still fetch */
  FIRST_FETCH_WINDOW_BYTES = 256 * 1024,
  MAX_FETCH_WINDOW_BYTES = 2 * 1024 * 1024,

  /* local control */
  MAX_CONTROL_CLIENTS = 8,
  MAX_CONTROL_LINE_BYTES = 64 * 1024,
};

#endif
