-- The whole database, version 4. A new database is made from this file; an older one is brought up by the steps in
-- migration.c, whose number + 1 is the version, and holds the same text afterwards. Unsigned 64-bit numbers are kept as the integer with the same bits.

-- Exactly one row: whose database this is, and the boot epoch of its present or last run.
CREATE TABLE agent (
  one      INTEGER PRIMARY KEY CHECK (one = 1),
  identity BLOB    NOT NULL CHECK (length(identity) = 32),
  epoch    INTEGER NOT NULL
) STRICT;

CREATE TABLE job (
  id     INTEGER PRIMARY KEY,
  digest BLOB    NOT NULL UNIQUE CHECK (length(digest) = 32)
) STRICT;

-- What this agent said, one row a sequence number for ever. manifest and payload are cleared when the publication is no
-- longer among those that peers may still fetch, half when it is no longer among the snapshots that are kept. copy_manifest
-- is of former versions, which signed the full copy with each publication; now it is signed when a peer asks.
CREATE TABLE publication (
  job           INTEGER NOT NULL REFERENCES job (id),
  sequence      INTEGER NOT NULL CHECK (sequence > 0),
  epoch         INTEGER NOT NULL,
  round         INTEGER NOT NULL,
  sub           INTEGER NOT NULL,
  chain         BLOB    NOT NULL CHECK (length(chain) = 32), -- zeros: forgotten with a damaged snapshot
  manifest      BLOB,
  payload       BLOB    CHECK (length(payload) = 32), -- file; NULL for kind none
  half          BLOB    CHECK (length(half) = 32),    -- file: the snapshot after training; NULL for kind none
  copy_offset   INTEGER NOT NULL,                     -- where the public copy stands in half, in bytes
  n_copy        INTEGER NOT NULL,
  copy_manifest BLOB,
  train_loss    REAL,                                 -- NULL: not finite
  train_seconds REAL,
  n_samples     INTEGER NOT NULL,
  interrupted   INTEGER NOT NULL DEFAULT 0,           -- 1: the agent ended between this and its commitment
  PRIMARY KEY (job, sequence),
  UNIQUE (job, round, sub, epoch)
) STRICT;

CREATE INDEX publication_payload ON publication (job, sequence, payload) WHERE payload IS NOT NULL;
CREATE INDEX publication_manifest ON publication (job, sequence) WHERE manifest IS NOT NULL;
CREATE INDEX publication_half ON publication (job, sequence, half) WHERE half IS NOT NULL;

-- What this agent learnt, one row a label. model, half and shadow are cleared when the snapshot is no longer kept.
-- sequence is the newest publication's at that time (0: none): the one that it merges, unless it jumped, adopted or was
-- rolled back. Their labels differ where too few peers contributed: what was published as 419 is committed as 418+1.
CREATE TABLE commitment (
  job                 INTEGER NOT NULL REFERENCES job (id),
  round               INTEGER NOT NULL,
  sub                 INTEGER NOT NULL,
  sequence            INTEGER NOT NULL,
  outcome             TEXT    NOT NULL CHECK (outcome IN ('merged', 'short', 'jumped', 'merge-refused', 'adopted',
                                                          'rolled-back')),
  model               BLOB    CHECK (length(model) = 32),  -- file: the merged model
  half                BLOB    CHECK (length(half) = 32),   -- file: what merging does not change
  shadow              BLOB    CHECK (length(shadow) = 32), -- file: the model that is trained alone; NULL: none
  shadow_headline     REAL,
  shadow_seconds      REAL,
  local_loss          REAL, -- NULL: not measured
  local_headline      REAL,
  local_macro_f1      REAL,
  local_balanced      REAL, -- balanced accuracy
  global_loss         REAL,
  global_headline     REAL,
  global_macro_f1     REAL,
  global_balanced     REAL,
  validation_loss     REAL,
  validation_headline REAL,
  seconds             REAL,
  sent_bytes          INTEGER NOT NULL,
  received_bytes      INTEGER NOT NULL,
  committed_unix_s    INTEGER NOT NULL DEFAULT (unixepoch()),
  PRIMARY KEY (job, round, sub)
) STRICT, WITHOUT ROWID;

CREATE INDEX commitment_sequence ON commitment (job, sequence);
CREATE INDEX commitment_model ON commitment (job, round, sub, model) WHERE model IS NOT NULL;
CREATE INDEX commitment_half ON commitment (job, round, sub, half) WHERE half IS NOT NULL;
CREATE INDEX commitment_shadow ON commitment (job, round, sub, shadow) WHERE shadow IS NOT NULL;

-- Who took part in a commitment, and why the others did not.
CREATE TABLE contribution (
  job        INTEGER NOT NULL,
  round      INTEGER NOT NULL,
  sub        INTEGER NOT NULL,
  origin     BLOB    NOT NULL CHECK (length(origin) = 32),
  name       TEXT    NOT NULL,
  reason     TEXT    NOT NULL, -- stable name of the error list; 'ok': merged
  clipped    INTEGER NOT NULL,
  lag        INTEGER NOT NULL,
  weight     REAL,
  epoch      INTEGER NOT NULL,
  sequence   INTEGER NOT NULL,
  n_bytes    INTEGER NOT NULL,
  arrival_ms INTEGER NOT NULL, -- after our own payload was durable; -1: it did not arrive
  PRIMARY KEY (job, round, sub, origin),
  FOREIGN KEY (job, round, sub) REFERENCES commitment (job, round, sub) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- How good a committed model is on each task, where the job has tasks that are learnt one after the other: R of continual learning.
-- position is the place in this site's order at that time, trained the task that stood there.
CREATE TABLE task_accuracy (
  job      INTEGER NOT NULL,
  round    INTEGER NOT NULL,
  sub      INTEGER NOT NULL,
  task     INTEGER NOT NULL,
  position INTEGER NOT NULL,
  trained  INTEGER NOT NULL,
  accuracy REAL, -- NULL: the test set has no sample of the task
  PRIMARY KEY (job, round, sub, task),
  FOREIGN KEY (job, round, sub) REFERENCES commitment (job, round, sub) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX task_accuracy_position ON task_accuracy (job, position, round, sub);

-- The newest (epoch, sequence) of each origin that a commitment has dealt with: what is a duplicate after a restart.
CREATE TABLE position (
  job      INTEGER NOT NULL REFERENCES job (id),
  origin   BLOB    NOT NULL CHECK (length(origin) = 32),
  epoch    INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  PRIMARY KEY (job, origin)
) STRICT, WITHOUT ROWID;

-- Where a commitment is a roll-back: to which model, and why.
CREATE TABLE roll_back (
  job       INTEGER NOT NULL,
  round     INTEGER NOT NULL,
  sub       INTEGER NOT NULL,
  to_round  INTEGER NOT NULL,
  to_sub    INTEGER NOT NULL,
  note      TEXT    NOT NULL,
  at_unix_s INTEGER NOT NULL,
  PRIMARY KEY (job, round, sub),
  FOREIGN KEY (job, round, sub) REFERENCES commitment (job, round, sub) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- Models that are kept until they are unpinned.
CREATE TABLE pin (
  job       INTEGER NOT NULL,
  round     INTEGER NOT NULL,
  sub       INTEGER NOT NULL,
  note      TEXT    NOT NULL,
  at_unix_s INTEGER NOT NULL,
  PRIMARY KEY (job, round, sub),
  FOREIGN KEY (job, round, sub) REFERENCES commitment (job, round, sub) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- Which model is served, where that was said by a command; without a row the configuration says it. The label is the
-- served model's when the mode is 'pinned', zeros otherwise.
CREATE TABLE serving (
  job       INTEGER PRIMARY KEY REFERENCES job (id),
  mode      TEXT    NOT NULL CHECK (mode IN ('best', 'latest', 'pinned')),
  round     INTEGER NOT NULL,
  sub       INTEGER NOT NULL,
  at_unix_s INTEGER NOT NULL
) STRICT;

-- Which version of a job serves, by the job's name; without a row the oldest that runs does.
CREATE TABLE serving_job (
  name      TEXT    PRIMARY KEY,
  version   INTEGER NOT NULL,
  at_unix_s INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Signed job files, by the digest of the job.
CREATE TABLE job_file (
  digest    BLOB    PRIMARY KEY CHECK (length(digest) = 32),
  name      TEXT    NOT NULL,
  version   INTEGER NOT NULL,
  proposer  BLOB    NOT NULL CHECK (length(proposer) = 32),
  signature BLOB    NOT NULL CHECK (length(signature) = 64),
  text      TEXT    NOT NULL,
  state     TEXT    NOT NULL CHECK (state IN ('proposed', 'accepted', 'stopped')),
  at_unix_s INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A ring: the newest 10 000.
CREATE TABLE event (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  at_unix_s INTEGER NOT NULL,
  name      TEXT    NOT NULL,
  peer      TEXT    NOT NULL,
  text      TEXT    NOT NULL
) STRICT;

-- Every file that a row names; all others are removed.
CREATE VIEW named_file (name) AS
  SELECT payload FROM publication WHERE payload IS NOT NULL
  UNION ALL
  SELECT half FROM publication WHERE half IS NOT NULL
  UNION ALL
  SELECT model FROM commitment WHERE model IS NOT NULL
  UNION ALL
  SELECT half FROM commitment WHERE half IS NOT NULL
  UNION ALL
  SELECT shadow FROM commitment WHERE shadow IS NOT NULL;

-- The publication that each commitment merges.
CREATE VIEW merge (job, round, sub, sequence) AS
  SELECT job, round, sub, sequence FROM commitment WHERE outcome NOT IN ('jumped', 'adopted', 'rolled-back');

-- Where an agent could start from: after a commitment, or gathering with a stored half-step. Newer is what has the higher
-- (sequence, committed, round, sub).
CREATE VIEW snapshot (job, round, sub, committed, sequence, half, model, payload) AS
  SELECT job, round, sub, 1, sequence, half, model, NULL
    FROM commitment INDEXED BY commitment_model WHERE model IS NOT NULL
  UNION ALL
  SELECT job, round, sub, 0, sequence, half, NULL, payload
    FROM publication INDEXED BY publication_half WHERE half IS NOT NULL;

-- How well a kept model and the two before it did on the validation split: their mean; NULL with fewer than three figures.
CREATE VIEW standing (job, round, sub, mean) AS
  SELECT job, round, sub,
         (SELECT iif(count(headline) = 3, avg(headline), NULL)
            FROM (SELECT b.validation_headline AS headline FROM commitment b
                   WHERE b.job = c.job AND (b.round, b.sub) <= (c.round, c.sub)
                   ORDER BY b.round DESC, b.sub DESC LIMIT 3))
    FROM commitment c INDEXED BY commitment_model WHERE model IS NOT NULL;
