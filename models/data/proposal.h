/* A contract proposed from one site's data, for people to agree on. Pure; any thread. */
#ifndef MODELS_DATA_PROPOSAL_H
#define MODELS_DATA_PROPOSAL_H

#include "base/err.h"
#include "base/limits.h"
#include "models/contract.h"
#include "models/data/profile.h"

/* Proposes from a profile that was made without a contract.
 *
 *   task      `task`, or where it is NULL: sets of classes where a label has a ';', a number to predict when every label is a number and they are fractions or more
 *             than MAX_GUESSED_CLASSES different ones, or an array of floats, else classes
 *   classes   of a table sorted, as numbers where all are numbers; of images and arrays as many as the largest label needs;
 *             to reconstruct the commonest first, for it is taken as normal, and none when the profile has no label; sets of
 *             classes without a label: the columns of 0 and 1 alone
 *   features  every other column whose fields are numbers, but none that counts the rows, in the file's order, with a range that leaves its own width on
 *             either side of what was seen (not below 0 where nothing is), rounded outwards; without ranges where the
 *             contract would be too long with them
 *   scale     mean and sd, three digits of the sd
 *
 * On failure a sentence with the remedy: ERR_NOT_FOUND: no such label column, no feature, no sample with a label; those of
 * contract_check; ERR_NO_MEMORY. */
enum { MAX_GUESSED_CLASSES = 20 };
MUST_USE enum err contract_propose(const struct profile *p, const enum task *task, struct contract **out_contract,
                                   char out_reason[MAX_REASON_BYTES]);

/* Why the column is no feature of the proposal, half a sentence; NULL: it is one, or the label. */
const char *proposal_left_out(const struct profile *p, size_t column);

#endif
