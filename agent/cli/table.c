#include "agent/cli/table.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "agent/cli/answer.h"
#include "base/must.h"
#include "models/contract.h"

enum { MAX_COLUMNS = 24 };

const json_t *json_at(const json_t *object, const char *path) {
  while (object && *path) {
    char key[MAX_NAME_BYTES];
    size_t n = strcspn(path, ".");
    if (n >= sizeof key)
      return NULL;
    memcpy(key, path, n);
    key[n] = '\0';
    object = json_object_get(object, key);
    path += n + (path[n] == '.');
  }
  return object;
}

/* ---- one value ---------------------------------------------------------------------------------------------------- */

static void print_bytes(double bytes, FILE *out) {
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < sizeof units / sizeof *units; unit++)
    bytes /= 1000;
  fprintf(out, unit == 0 || bytes >= 99.95 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
}

static void print_duration(double seconds, FILE *out) {
  uint64_t whole = seconds < 0 ? 0 : seconds < 1e15 ? (uint64_t)seconds : (uint64_t)1e15;
  if (seconds < 59.95)
    fprintf(out, seconds < 9.995 ? "%.2fs" : "%.1fs", seconds);
  else if (whole < 3600)
    fprintf(out, "%" PRIu64 "m%02" PRIu64 "s", whole / 60, whole % 60);
  else if (whole < 86400)
    fprintf(out, "%" PRIu64 "h%02" PRIu64 "m", whole / 3600, whole / 60 % 60);
  else
    fprintf(out, "%" PRIu64 "d%02" PRIu64 "h", whole / 86400, whole / 3600 % 24);
}

/* Lists as "a, b", objects as "name value, …", both "-" when empty. */
static void print_plain(const json_t *value, FILE *out) {
  const char *key;
  json_t *item;
  size_t i, n = 0;
  if (json_is_string(value))
    text_print(json_string_value(value), out);
  else if (json_is_integer(value))
    fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
  else if (json_is_real(value))
    fprintf(out, "%.17g", json_real_value(value));
  else if (json_is_boolean(value))
    fputs(json_is_true(value) ? "yes" : "no", out);
  json_array_foreach(value, i, item) {
    fputs(n++ ? ", " : "", out);
    print_plain(item, out);
  }
  json_object_foreach((json_t *)(uintptr_t)value, key, item) {
    fputs(n++ ? ", " : "", out);
    text_print(key, out);
    fputc(' ', out);
    print_plain(item, out);
  }
}

static bool is_blank(const json_t *value) {
  return !value || json_is_null(value) || (json_is_string(value) && json_string_length(value) == 0) ||
         (json_is_array(value) && json_array_size(value) == 0) ||
         (json_is_object(value) && json_object_size(value) == 0);
}

void value_print(const json_t *value, enum column_form form, FILE *out) {
  double number = json_number_value(value);
  if (is_blank(value))
    fputc('-', out);
  else if (!json_is_number(value) || form == FORM_TEXT || form == FORM_COUNT)
    print_plain(value, out);
  else if (form == FORM_LOSS)
    fprintf(out, "%.4g", number);
  else if (form == FORM_PERCENT)
    fprintf(out, "%.1f", 100 * number);
  else if (form == FORM_SCORE || form == FORM_HEADLINE)
    fprintf(out, "%.3f", number);
  else if (form == FORM_BYTES)
    print_bytes(number, out);
  else
    print_duration(number, out);
}

/* ---- rows --------------------------------------------------------------------------------------------------------- */

enum column_form headline_form(const json_t *row, const char *path) {
  char metric_path[2 * MAX_NAME_BYTES];
  const char *dot = strrchr(path, '.');
  snprintf(metric_path, sizeof metric_path, "%.*smetric", dot ? (int)(dot + 1 - path) : 0, path);
  const char *metric = json_string_value(json_at(row, metric_path));
  return metric && strcmp(metric, metric_name(METRIC_ACCURACY)) == 0 ? FORM_PERCENT : FORM_SCORE;
}

static enum column_form form_of(const struct column *column) {
  return column->form & COLUMN_FORM;
}

/* At the first path of "a|b" where something is. */
static const json_t *first_at(const json_t *row, const char *paths) {
  char path[2 * MAX_NAME_BYTES];
  const json_t *value = NULL;
  while (*paths && is_blank(value)) {
    size_t n = strcspn(paths, "|");
    snprintf(path, sizeof path, "%.*s", (int)n, paths);
    value = json_at(row, path);
    paths += n + (paths[n] == '|');
  }
  return value;
}

/* The cell as a string of the heap; NULL: no memory. */
static char *cell_text(const struct column *column, const json_t *row, bool is_tsv) {
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  if (!out)
    return NULL;
  const json_t *value = first_at(row, column->key);
  enum column_form form = form_of(column);
  form = form == FORM_HEADLINE ? headline_form(row, column->key) : form;
  value_print(value, is_tsv ? FORM_TEXT : form, out);
  fclose(out);
  return text;
}

size_t text_width(const char *text, size_t n_bytes) {
  size_t n = 0;
  // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): as many cells as were made
  for (size_t i = 0; i < n_bytes && text[i]; i++)
    n += ((unsigned char)text[i] & 0xc0) != 0x80;
  return n;
}

size_t terminal_width(FILE *out) {
  struct winsize size = {0};
  int fd = fileno(out);
  return fd >= 0 && isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void text_flow(const char *text, size_t indent, size_t width, FILE *out) {
  enum { NARROWEST = 20 };
  size_t room = width == 0 ? SIZE_MAX : width > indent + NARROWEST ? width - indent : NARROWEST, used = 0;
  while (*text) {
    int n = (int)strcspn(text, " ");
    size_t own = text_width(text, (size_t)n);
    if (used > 0 && used + 1 + own > room)
      fprintf(out, "\n%*s", (int)indent, ""), used = 0;
    fprintf(out, "%s%.*s", used > 0 ? " " : "", n, text);
    used += own + (used > 0);
    text += n;
    text += strspn(text, " ");
  }
  fputc('\n', out);
}

static void print_cell(const char *text, size_t width, bool is_right, FILE *out) {
  size_t own = text_width(text, SIZE_MAX);
  int pad = (int)(width > own ? width - own : 0);
  fprintf(out, "%*s%s%*s  ", is_right ? pad : 0, "", text, is_right ? 0 : pad, "");
}

static bool says_something(const char *text) {
  static const char *const nothing[] = {"-", "0", "0 B", "no"};
  for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++)
    if (strcmp(text, nothing[i]) == 0)
      return false;
  return true;
}

/* Whether people see the column. */
static bool is_shown(const struct column *column, char *const *cells, size_t stride, size_t n_rows) {
  bool any = false;
  for (size_t r = 0; r < n_rows; r++)
    any = any || says_something(cells[r * stride]);
  return !(column->form & COLUMN_IN_TSV) && (any || !(column->form & COLUMN_IF_ANY));
}

/* One line: the heading, or a row's cells. The last column is not padded, and a text in it flows. */
static void print_line(const struct column *columns, const size_t *shown, size_t n_shown, const size_t *widths,
                       char *const *cells, FILE *out) {
  size_t indent = 0, last = shown[n_shown - 1];
  for (size_t i = 0; i + 1 < n_shown; i++) {
    size_t c = shown[i];
    print_cell(cells ? cells[c] : columns[c].heading, widths[c], form_of(&columns[c]) != FORM_TEXT, out);
    indent += widths[c] + 2;
  }
  const char *text = cells ? cells[last] : columns[last].heading;
  if (form_of(&columns[last]) == FORM_TEXT)
    text_flow(text, indent, terminal_width(out), out);
  else
    fprintf(out, "%*s%s\n", (int)(widths[last] - text_width(text, SIZE_MAX)), "", text);
}

static void print_cells(const struct column *columns, size_t n_columns, char *const *cells, size_t n_rows, FILE *out) {
  size_t widths[MAX_COLUMNS] = {0}, shown[MAX_COLUMNS], n_shown = 0;
  for (size_t c = 0; c < n_columns; c++) {
    widths[c] = text_width(columns[c].heading, SIZE_MAX);
    for (size_t r = 0; r < n_rows; r++) {
      size_t width = text_width(cells[r * n_columns + c], SIZE_MAX);
      widths[c] = width > widths[c] ? width : widths[c];
    }
    if (is_shown(&columns[c], cells + c, n_columns, n_rows))
      shown[n_shown++] = c;
  }
  MUST(n_shown > 0);
  print_line(columns, shown, n_shown, widths, NULL, out);
  for (size_t r = 0; r < n_rows; r++)
    print_line(columns, shown, n_shown, widths, cells + r * n_columns, out);
}

static void print_rows(char *const *cells, size_t n_cells, size_t n_columns, FILE *out) {
  for (size_t i = 0; i < n_cells; i++)
    fprintf(out, "%s%c", cells[i], (i + 1) % n_columns == 0 ? '\n' : '\t');
}

/* The texts of all cells, row by row; false: no memory. */
static bool make_cells(const struct column *columns, size_t n_columns, const json_t *rows, bool is_tsv, char **cells,
                       size_t n_cells) {
  for (size_t i = 0; i < n_cells; i++) {
    cells[i] = cell_text(&columns[i % n_columns], json_array_get(rows, i / n_columns), is_tsv);
    if (cells[i] == NULL)
      return false;
  }
  return true;
}

void table_print(const struct column *columns, size_t n_columns, const json_t *rows, bool is_tsv, FILE *out) {
  size_t n_rows = json_array_size(rows), n_cells = n_rows * n_columns;
  MUST(n_columns > 0 && n_columns <= MAX_COLUMNS);
  char **cells = calloc(n_cells + 1, sizeof *cells);
  if (!cells || !make_cells(columns, n_columns, rows, is_tsv, cells, n_cells))
    fputs("not enough memory\n", out);
  else if (is_tsv)
    print_rows(cells, n_cells, n_columns, out);
  else
    print_cells(columns, n_columns, cells, n_rows, out);
  for (size_t i = 0; cells && i < n_cells; i++)
    free(cells[i]);
  free(cells);
}
