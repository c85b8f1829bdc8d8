/* All SQL of a running store: symbol and text. Prepared once at opening; schema.sql says what the columns mean. */
#ifndef STORE_STATEMENTS_H
#define STORE_STATEMENTS_H

/* The columns of a round, for the labels of `label`: the publication is the one that it merges, else the newest one. */
#define ROUND_COLUMNS                                                                                                  \
  "SELECT l.round, l.sub, c.outcome, c.committed_unix_s, c.seconds, c.sent_bytes, c.received_bytes, c.model,"          \
  " c.local_loss, c.local_headline, c.local_macro_f1, c.local_balanced,"                                               \
  " c.global_loss, c.global_headline, c.global_macro_f1, c.global_balanced,"                                           \
  " c.validation_loss, c.validation_headline, c.shadow, c.shadow_headline, c.shadow_seconds,"                          \
  " p.interrupted, p.train_loss, p.train_seconds, p.n_samples, p.sequence,"                                            \
  " (SELECT count(*) FROM contribution WHERE job = ?1 AND round = l.round AND sub = l.sub AND reason = 'ok'),"         \
  " (SELECT count(*) FROM contribution WHERE job = ?1 AND round = l.round AND sub = l.sub)"                            \
  " FROM label l"                                                                                                      \
  " LEFT JOIN commitment c ON c.job = ?1 AND c.round = l.round AND c.sub = l.sub"                                      \
  " LEFT JOIN merge m ON m.job = ?1 AND m.round = l.round AND m.sub = l.sub"                                           \
  " LEFT JOIN publication p ON p.job = ?1 AND p.sequence = iif(c.round IS NOT NULL, m.sequence,"                       \
  " (SELECT max(sequence) FROM publication WHERE job = ?1 AND round = l.round AND sub = l.sub))"                       \
  " ORDER BY l.round, l.sub"

#define NOT_MERGED                                                                                                     \
  " NOT EXISTS (SELECT 1 FROM merge m WHERE m.job = publication.job AND m.sequence = publication.sequence)"

#define LABELS(condition)                                                                                              \
  "SELECT round, sub FROM publication WHERE job = ?1" condition " AND" NOT_MERGED                                      \
  " UNION SELECT round, sub FROM commitment WHERE job = ?1" condition

#define STATEMENT_LIST(X)                                                                                              \
  X(BEGIN, "BEGIN IMMEDIATE")                                                                                          \
  X(COMMIT, "COMMIT")                                                                                                  \
  X(FILES_NAMED, "SELECT name FROM named_file")                                                                        \
  X(AGENT_GET, "SELECT identity, epoch FROM agent")                                                                    \
  X(AGENT_SET, "INSERT INTO agent (one, identity, epoch) VALUES (1, ?, ?)"                                             \
               " ON CONFLICT DO UPDATE SET epoch = excluded.epoch")                                                    \
  X(EPOCH_SET, "UPDATE agent SET epoch = ?")                                                                           \
  X(INTERRUPT, "UPDATE publication SET interrupted = 1 WHERE interrupted = 0 AND" NOT_MERGED)                          \
  X(JOB_ADD, "INSERT INTO job (digest) VALUES (?) ON CONFLICT DO NOTHING")                                             \
  X(JOB_FIND, "SELECT id FROM job WHERE digest = ?")                                                                   \
  X(JOBS, "SELECT digest FROM job ORDER BY id LIMIT ?")                                                                \
  X(LAST_COMMITTED, "SELECT round, sub FROM commitment WHERE job = ? ORDER BY round DESC, sub DESC LIMIT 1")           \
  X(COMMITTED_UNTIL,                                                                                                   \
    "SELECT round, sub, shadow FROM commitment WHERE job = ? AND (sequence, 1, round, sub) <= (?, ?, ?, ?)"            \
    " ORDER BY round DESC, sub DESC LIMIT 1")                                                                          \
  X(SHORT_COUNT, "SELECT count(*) FROM commitment WHERE job = ? AND round = ? AND sub BETWEEN 1 AND ?"                 \
                 " AND outcome <> 'rolled-back'")                                                                      \
  X(LAST_PUBLISHED, "SELECT sequence, epoch, chain FROM publication WHERE job = ? ORDER BY sequence DESC LIMIT 1")     \
  X(PUBLICATION_FIND, "SELECT sequence, manifest, payload FROM publication"                                            \
                      " WHERE job = ? AND round = ? AND sub = ? AND epoch = ?")                                        \
  X(LAST_CLOSED, "SELECT sequence FROM commitment WHERE job = ? ORDER BY sequence DESC LIMIT 1")                       \
  X(PUBLICATION_ADD, "INSERT INTO publication (job, sequence, epoch, round, sub, chain, manifest, payload, half,"      \
                     " copy_offset, n_copy, train_loss, train_seconds, n_samples)"                                     \
                     " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")                                             \
  X(PAYLOADS_KEEP, "UPDATE publication SET manifest = NULL, payload = NULL, copy_manifest = NULL"                      \
                   " WHERE job = ?1 AND manifest IS NOT NULL AND sequence NOT IN"                                      \
                   " (SELECT sequence FROM publication WHERE job = ?1 AND manifest IS NOT NULL"                        \
                   " ORDER BY sequence DESC LIMIT ?2)")                                                                \
  X(HALVES_KEEP, "UPDATE publication SET half = NULL WHERE job = ?1 AND half IS NOT NULL AND sequence NOT IN"          \
                 " (SELECT sequence FROM publication WHERE job = ?1 AND half IS NOT NULL"                              \
                 " ORDER BY sequence DESC LIMIT ?2)")                                                                  \
  X(MODELS_KEEP, "UPDATE commitment SET model = NULL, half = NULL, shadow = NULL"                                      \
                 " WHERE job = ?1 AND model IS NOT NULL AND (round, sub) NOT IN"                                       \
                 " (SELECT round, sub FROM commitment WHERE job = ?1 AND model IS NOT NULL"                            \
                 " ORDER BY round DESC, sub DESC LIMIT ?2)"                                                            \
                 " AND (round, sub) NOT IN (SELECT round, sub FROM standing WHERE job = ?1 AND mean IS NOT NULL"       \
                 " ORDER BY mean DESC, round DESC, sub DESC LIMIT ?3)"                                                 \
                 " AND (round, sub) NOT IN (SELECT round, sub FROM pin WHERE job = ?1)"                                \
                 " AND (round, sub) NOT IN (SELECT round, sub FROM serving WHERE job = ?1 AND mode = 'pinned')")       \
  X(NEWEST_HALF, "SELECT half FROM snapshot WHERE job = ? AND half IS NOT NULL"                                        \
                 " ORDER BY sequence DESC, committed DESC, round DESC, sub DESC LIMIT 1")                              \
  X(SNAPSHOTS, "SELECT round, sub, committed, sequence, half, model, payload FROM snapshot WHERE job = ?"              \
               " ORDER BY sequence DESC, committed DESC, round DESC, sub DESC")                                        \
  X(COMMITMENTS_DROP, "DELETE FROM commitment WHERE job = ? AND (sequence, 1, round, sub) > (?, ?, ?, ?)")             \
  X(PUBLICATIONS_VOID,                                                                                                 \
    "UPDATE publication SET half = NULL, payload = NULL, copy_manifest = NULL, chain = zeroblob(32)"                   \
    " WHERE job = ? AND (sequence, 0, round, sub) > (?, ?, ?, ?)")                                                     \
  X(COMMITMENT_FIND, "SELECT model FROM commitment WHERE job = ? AND round = ? AND sub = ?")                           \
  X(COMMITMENT_ADD, "INSERT INTO commitment (job, round, sub, sequence, outcome, model, half, shadow,"                 \
                    " shadow_headline, shadow_seconds, local_loss, local_headline, local_macro_f1, local_balanced,"    \
                    " global_loss, global_headline, global_macro_f1, global_balanced, validation_loss,"                \
                    " validation_headline, seconds, sent_bytes, received_bytes)"                                       \
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")                   \
  X(COMMITMENT_ROLL_BACK,                                                                                              \
    "INSERT INTO commitment (job, round, sub, sequence, outcome, model, half, shadow, shadow_headline,"                \
    " shadow_seconds, local_loss, local_headline, local_macro_f1, local_balanced, global_loss, global_headline,"       \
    " global_macro_f1, global_balanced, validation_loss, validation_headline, seconds, sent_bytes, received_bytes)"    \
    " SELECT t.job, ?4, ?5, ?6, 'rolled-back', t.model, t.half, l.shadow, l.shadow_headline, l.shadow_seconds,"        \
    " t.local_loss, t.local_headline, t.local_macro_f1, t.local_balanced, t.global_loss, t.global_headline,"           \
    " t.global_macro_f1, t.global_balanced, t.validation_loss, t.validation_headline, NULL, 0, 0"                      \
    " FROM commitment t JOIN commitment l ON l.job = ?1 AND l.round = ?4 AND l.sub = ?5 - 1"                           \
    " WHERE t.job = ?1 AND t.round = ?2 AND t.sub = ?3")                                                               \
  X(CONTRIBUTION_ADD, "INSERT INTO contribution (job, round, sub, origin, name, reason, clipped, lag, weight, epoch,"  \
                      " sequence, n_bytes, arrival_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")                \
  X(CONTRIBUTIONS, "SELECT origin, name, reason, clipped, lag, weight, epoch, sequence, n_bytes, arrival_ms"           \
                   " FROM contribution WHERE job = ? AND round = ? AND sub = ? ORDER BY origin LIMIT ?")               \
  X(TASK_ACCURACY_ADD, "INSERT INTO task_accuracy (job, round, sub, task, position, trained, accuracy)"                \
                       " VALUES (?, ?, ?, ?, ?, ?, ?)")                                                                \
  X(TASK_ACCURACIES, "SELECT task, trained, accuracy, round, sub FROM task_accuracy WHERE job = ?1 AND position = ?2"  \
                     " AND (round, sub) = (SELECT round, sub FROM task_accuracy WHERE job = ?1 AND position = ?2"      \
                     " ORDER BY round DESC, sub DESC LIMIT 1) ORDER BY task")                                          \
  X(POSITION_GET, "SELECT epoch, sequence FROM position WHERE job = ? AND origin = ?")                                 \
  X(POSITION_SET, "INSERT INTO position (job, origin, epoch, sequence) VALUES (?, ?, ?, ?)"                            \
                  " ON CONFLICT DO UPDATE SET epoch = excluded.epoch, sequence = excluded.sequence")                   \
  X(OUTBOX, "SELECT epoch, sequence, round, sub, chain, manifest, payload, half, copy_offset, n_copy"                  \
            " FROM publication WHERE job = ? AND manifest IS NOT NULL ORDER BY sequence DESC LIMIT ?")                 \
  X(EVENT_ADD, "INSERT INTO event (at_unix_s, name, peer, text) VALUES (?, ?, ?, ?)")                                  \
  X(EVENTS_KEEP, "DELETE FROM event WHERE id <= (SELECT max(id) FROM event) - ?")                                      \
  X(ROLL_BACK_ADD,                                                                                                     \
    "INSERT INTO roll_back (job, round, sub, to_round, to_sub, note, at_unix_s) VALUES (?, ?, ?, ?, ?, ?, ?)")         \
  X(ROLL_BACK_UNTIL, "SELECT r.round, r.sub, r.to_round, r.to_sub, r.note, r.at_unix_s, c.sequence FROM roll_back r"   \
                     " JOIN commitment c ON c.job = r.job AND c.round = r.round AND c.sub = r.sub"                     \
                     " WHERE r.job = ? AND (r.round, r.sub) <= (?, ?) ORDER BY r.round DESC, r.sub DESC LIMIT 1")      \
  X(COMMITMENT_SEQUENCE, "SELECT sequence FROM commitment WHERE job = ? AND round = ? AND sub = ?")                    \
  X(TRAININGS, "SELECT count(*) FROM publication WHERE job = ? AND sequence > ? AND sequence <= ? AND n_samples > 0")  \
  X(CHAIN_FORGET, "UPDATE publication SET chain = zeroblob(32) WHERE job = ?1 AND sequence = (SELECT max(sequence) "   \
                  "FROM publication WHERE job = ?1)")                                                                  \
  X(EVENTS, "SELECT id, at_unix_s, name, peer, text FROM event WHERE id > ? ORDER BY id LIMIT ?")                      \
  X(EVENT_LAST, "SELECT coalesce(max(id), 0) FROM event")                                                              \
  X(PIN_FIND, "SELECT note, at_unix_s FROM pin WHERE job = ? AND round = ? AND sub = ?")                               \
  X(PIN_SET, "INSERT INTO pin (job, round, sub, note, at_unix_s) VALUES (?, ?, ?, ?, ?)"                               \
             " ON CONFLICT DO UPDATE SET note = excluded.note, at_unix_s = excluded.at_unix_s")                        \
  X(PIN_DROP, "DELETE FROM pin WHERE job = ? AND round = ? AND sub = ?")                                               \
  X(PIN_COUNT, "SELECT count(*) FROM pin WHERE job = ?")                                                               \
  X(MODELS, "SELECT s.round, s.sub, s.mean, p.round IS NOT NULL, p.note, p.at_unix_s FROM standing s"                  \
            " LEFT JOIN pin p ON p.job = s.job AND p.round = s.round AND p.sub = s.sub WHERE s.job = ?"                \
            " ORDER BY s.round DESC, s.sub DESC LIMIT ?")                                                              \
  X(SERVING_JOB_GET, "SELECT version FROM serving_job WHERE name = ?")                                                 \
  X(SERVING_JOB_SET, "INSERT INTO serving_job (name, version, at_unix_s) VALUES (?, ?, ?)"                             \
                     " ON CONFLICT (name) DO UPDATE SET version = excluded.version, at_unix_s = excluded.at_unix_s")   \
  X(SERVING_GET, "SELECT mode, round, sub FROM serving WHERE job = ?")                                                 \
  X(SERVING_SET, "INSERT INTO serving (job, mode, round, sub, at_unix_s) VALUES (?, ?, ?, ?, ?)"                       \
                 " ON CONFLICT DO UPDATE SET mode = excluded.mode, round = excluded.round, sub = excluded.sub,"        \
                 " at_unix_s = excluded.at_unix_s")                                                                    \
  X(MODEL_FIND, "SELECT model, half FROM commitment WHERE job = ? AND round = ? AND sub = ?")                          \
  X(MODEL_LATEST, "SELECT round, sub FROM standing WHERE job = ? ORDER BY round DESC, sub DESC LIMIT 1")               \
  X(MODEL_BEST, "SELECT round, sub FROM standing WHERE job = ? AND mean IS NOT NULL"                                   \
                " ORDER BY mean DESC, round DESC, sub DESC LIMIT 1")                                                   \
  X(MODEL_PINNED, "SELECT round, sub FROM pin WHERE job = ? ORDER BY round DESC, sub DESC LIMIT 1")                    \
  X(JOB_FILE_FIND, "SELECT name, version, proposer, signature, text, state, at_unix_s FROM job_file WHERE digest = ?") \
  X(JOB_FILE_COUNT, "SELECT count(*) FROM job_file")                                                                   \
  X(JOB_FILE_ADD, "INSERT INTO job_file (digest, name, version, proposer, signature, text, state, at_unix_s)"          \
                  " VALUES (?, ?, ?, ?, ?, ?, ?, ?)")                                                                  \
  X(JOB_FILE_SET, "UPDATE job_file SET state = ? WHERE digest = ?")                                                    \
  X(JOB_FILES, "SELECT digest, name, version, proposer, signature, text, state, at_unix_s FROM job_file"               \
               " ORDER BY name, version, digest LIMIT ?")                                                              \
  X(ROUND_ONE, "WITH label AS (SELECT ?2 AS round, ?3 AS sub WHERE EXISTS (" LABELS(                                   \
                   " AND round = ?2 AND sub = ?3") ")) " ROUND_COLUMNS)                                                \
  X(ROUNDS_LAST, "WITH label AS (" LABELS("") " ORDER BY 1 DESC, 2 DESC LIMIT ?2) " ROUND_COLUMNS)                     \
  X(ROUNDS_FROM, "WITH label AS (" LABELS(" AND round >= ?3") " ORDER BY 1, 2 LIMIT ?2) " ROUND_COLUMNS)

enum statement {
#define X(symbol, text) SQL_##symbol,
  STATEMENT_LIST(X)
#undef X
      N_STATEMENTS
};

#endif
