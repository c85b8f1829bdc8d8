#include "store/filesystem.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/vfs.h>

#include "store/reason.h"

static const struct filesystem {
  unsigned long magic;
  const char *name;
  bool refused;
} filesystems[] = {
    {0x6969, "NFS", true},          {0xff534d42, "CIFS", true},   {0xfe534d42, "SMB", true},
    {0x517b, "SMB", true},          {0x01021997, "9p", true},     {0x65735546, "FUSE or virtiofs", true},
    {0x794c7630, "overlay", false}, {0x01021994, "tmpfs", false}, {0x858458f6, "ramfs", false},
};

static const struct filesystem *filesystem_find(unsigned long magic) {
  for (size_t i = 0; i < sizeof filesystems / sizeof *filesystems; i++)
    if (filesystems[i].magic == magic)
      return &filesystems[i];
  return NULL;
}

enum err filesystem_judge(unsigned long magic, const char *path, char out_warning[MAX_REASON_BYTES],
                          char out_why[MAX_REASON_BYTES]) {
  const struct filesystem *known = filesystem_find(magic);
  if (known == NULL)
    return ERR_OK;
  if (!known->refused) {
    reason_set(out_warning, "%s is on %s: rounds do not outlive it; mount a volume there to keep them",
               reason_path(path), known->name);
    return ERR_OK;
  }
  reason_set(out_why, "%s is on %s, where committed rounds can be lost: put the state directory on a local disk",
             reason_path(path), known->name);
  return ERR_UNSUPPORTED;
}

enum err filesystem_check(int dir_fd, const char *path, char out_warning[MAX_REASON_BYTES],
                          char out_why[MAX_REASON_BYTES]) {
  struct statfs status;
  if (fstatfs(dir_fd, &status) != 0) {
    reason_set(out_why, "%s: %s", reason_path(path), strerror(errno));
    return err_from_errno(errno);
  }
  return filesystem_judge((unsigned long)status.f_type & 0xffffffffUL, path, out_warning, out_why);
}
