/* The name of a file that is complete: given only where nothing has it. */
#ifndef BASE_NEW_NAME_H
#define BASE_NEW_NAME_H

/* As link(2), but `from` may then be gone: where the file system has no hard links (FAT, exFAT, some network shares) the file
 * is renamed, again never over another. 0, or −1 with errno: EEXIST, and those of both. */
int new_name_give(const char *from, const char *to);

#endif
