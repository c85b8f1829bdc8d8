/* Types of options: how the text of one kind of value is read, strictly, into its field and written back. For option.c,
 * whose table names them; a new kind of value is a reader, a writer and a row at the end of option_type.c. */
#ifndef AGENT_OPTION_TYPE_H
#define AGENT_OPTION_TYPE_H

#include "agent/option.h"

extern const struct option_type type_u32, type_steps, type_u64, type_number, type_word, type_flag, type_only_word,
    type_label, type_name, type_path, type_data_path, type_arch, type_address, type_key, type_shape, type_range,
    type_split_rule, type_codec, type_maps, type_listen, type_classes, type_features, type_missing, type_keys,
    type_init_from, type_topology, type_scale, type_class_weights, type_layers, type_tasks, type_offset, type_byzantine;
extern const struct option_type type_groups;

/* "peers[]." before the path of an option of a peer. */
const char *option_prefix(const struct option *o);

/* The value must be one text that is not empty. */
MUST_USE enum err option_need_text(struct option_reader *r, const struct option *o, const struct tree *value);

/* About a key or value of the map being read; as option_fail. */
__attribute__((format(printf, 4, 5))) enum err option_fail_at(struct option_reader *r, enum err e, struct place at,
                                                              const char *format, ...);
enum err option_no_memory(struct option_reader *r);

#endif
