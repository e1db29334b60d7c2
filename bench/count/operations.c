/* Counts what one operation does to shared memory: its instructions, its atomic read-modify-writes, the cache lines
 * that it changes, and how many of those an operation on another key, by another process, changes as well. Two
 * processes run each operation once, one after the other, an instruction at a time. Prints a table.
 *
 *   cc -Iinclude bench/count/operations.c -Lbuild -lholdfast
 *
 * A store of the value that is there already is not seen. x86-64 only: elsewhere it says so and ends with status 77. */

#define _GNU_SOURCE
#include <holdfast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef __x86_64__

int main(void) {
  fputs("the instructions of this processor are not known\n", stderr);
  return 77;
}

#else

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAME "counted"
#define SIZE (1024 * 1024)
#define LINE 64
#define FILES 2
#define MAPPINGS 64
#define STEPS 100000
#define FILLERS 1000

static void check(int good, const char* what) {
  if (!good) {
    perror(what);
    exit(1);
  }
}

/* --- the clock ----------------------------------------------------------------------------------------------- */

/* The library's clocks are these. They stand still while an operation is traced: an operation that is run an
 * instruction at a time takes so long that what is due after some milliseconds, as the measuring of a lock, would be
 * due. */
#define CLOCKS 16
static int stopped;
static struct timespec stopped_at[CLOCKS];

int clock_gettime(clockid_t clock, struct timespec* time) {
  if (!stopped) return (int)syscall(SYS_clock_gettime, clock, time);
  *time = stopped_at[clock];
  return 0;
}

static void stop_clocks(void) {
  for (clockid_t clock = 0; clock < CLOCKS; ++clock) clock_gettime(clock, &stopped_at[clock]);
  stopped = 1;
}

/* --- the operations, in a process that is traced -------------------------------------------------------- */

static holdfast_dict* dict;
static char text[1024];
static char key[32], held_key[32];
static holdfast_lease lease;

#define KEY key, strlen(key)

static void put(int op, int type, size_t length, double exptime) {
  int forcible;
  check(holdfast_store(dict, op, KEY, type, text, length, 1, exptime, 0, &forcible) == HOLDFAST_OK, holdfast_error());
}

static void lock(void) { check(holdfast_lock_try(dict, KEY, 30, 0, 0, &lease) == HOLDFAST_OK, holdfast_error()); }
static void unlock(void) { check(holdfast_unlock(dict, KEY, &lease) == HOLDFAST_OK, holdfast_error()); }
static void lock_and_unlock(void) {
  lock();
  unlock();
}
static void refused(void) {
  holdfast_lease none;
  check(holdfast_lock_try(dict, held_key, strlen(held_key), 30, 0, 0, &none) == HOLDFAST_LOCKED, holdfast_error());
}
static void set_number(void) { put(HOLDFAST_SET, HOLDFAST_NUMBER, 0, 0); }
/* In turns, as the end would be the same with the clock standing still. */
static void set_with_exptime(void) {
  static double exptime = 60;
  exptime = 121 - exptime;
  put(HOLDFAST_SET, HOLDFAST_NUMBER, 0, exptime);
}
static void set_100(void) { put(HOLDFAST_SET, HOLDFAST_STRING, 100, 0); }
static void set_1k(void) { put(HOLDFAST_SET, HOLDFAST_STRING, 1024, 0); }
static void get(void) {
  char buffer[1024];
  holdfast_value value = {.data = buffer, .capacity = sizeof buffer};
  check(holdfast_get(dict, KEY, &value) == HOLDFAST_OK, holdfast_error());
}
static void incr(void) {
  double result;
  int forcible;
  check(holdfast_incr(dict, KEY, 1, 0, 0, 0, &result, &forcible) == HOLDFAST_OK, holdfast_error());
}
static void delete_key(void) { check(holdfast_delete(dict, KEY) == HOLDFAST_OK, holdfast_error()); }
static void add_and_delete(void) {
  put(HOLDFAST_ADD, HOLDFAST_NUMBER, 0, 0);
  delete_key();
}
static void nothing(void) {}

/* `before` runs untraced; then the operation three times untraced, and once traced. The third time is the moment at
 * which the clocks stand still: what is due then is not due again. */
static const struct {
  const char* what;
  void (*before)(void), (*run)(void);
} operations[] = {
    {"lock + unlock", delete_key, lock_and_unlock},
    {"lock of a held key, refused", nothing, refused},
    {"get, number", set_number, get},
    {"set, number", set_number, set_number},
    {"set with exptime, number", set_number, set_with_exptime},
    {"incr", set_number, incr},
    {"add + delete", delete_key, add_and_delete},
    {"get, string of 100 bytes", set_100, get},
    {"set, string of 100 bytes", set_100, set_100},
    {"set, string of 1 KB", set_1k, set_1k},
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

/* Stops where the traced run of an operation begins, and where it ends. */
static void be_traced(int number) {
  holdfast_options options = {.size = SIZE, .persist = HOLDFAST_TEMPORARY};
  holdfast_lease ignored;
  check(holdfast_open(NAME, strlen(NAME), &options, &dict) == HOLDFAST_OK, holdfast_error());
  /* Together, and the fillers behind them, so that the entries of the two processes are no neighbours. */
  for (int i = 0; i < OPERATIONS + FILLERS; ++i) {
    snprintf(key, sizeof key, i < OPERATIONS ? "key %d of %d" : "filler %d of %d", i, number);
    set_number();
  }
  snprintf(held_key, sizeof held_key, "held by %d", number);
  check(holdfast_lock_try(dict, held_key, strlen(held_key), 600, 0, 0, &ignored) == HOLDFAST_OK, holdfast_error());
  check(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0, "ptrace");
  for (int i = 0; i < OPERATIONS; ++i) {
    snprintf(key, sizeof key, "key %d of %d", i, number);
    operations[i].before();
    operations[i].run();
    operations[i].run();
    stop_clocks();
    operations[i].run();
    __asm__ volatile("int3");
    operations[i].run();
    __asm__ volatile("int3");
    stopped = 0;
  }
  __asm__ volatile("int3");
  _exit(0);
}

/* --- the shared files, seen from outside ------------------------------------------------------------------ */

static struct {
  char path[512];
  unsigned char *now, *before;
  size_t size;
  unsigned long inode;
} files[FILES];

static void map_file(int i, const char* name) {
  struct stat about;
  snprintf(files[i].path, sizeof files[i].path, "%s/%s", holdfast_directory(), name);
  int file = open(files[i].path, O_RDONLY);
  check(file >= 0 && fstat(file, &about) == 0, files[i].path);
  files[i].size = about.st_size;
  files[i].inode = about.st_ino;
  files[i].now = mmap(NULL, files[i].size, PROT_READ, MAP_SHARED, file, 0);
  files[i].before = malloc(files[i].size);
  check(files[i].now != MAP_FAILED && files[i].before != NULL, files[i].path);
  close(file);
}

/* A bit for each line of each file. */
typedef struct {
  unsigned char* of[FILES];
} lines;

/* Where a process has mapped the files. */
typedef struct {
  unsigned long first, last, offset;
  int file;
} range;
typedef struct {
  range of[MAPPINGS];
  int count;
} mappings;

static void read_mappings(pid_t pid, mappings* found) {
  char line[1024], maps[64];
  snprintf(maps, sizeof maps, "/proc/%d/maps", (int)pid);
  FILE* list = fopen(maps, "r");
  check(list != NULL, maps);
  found->count = 0;
  while (fgets(line, sizeof line, list)) {
    unsigned long first, last, offset, inode;
    if (sscanf(line, "%lx-%lx %*s %lx %*s %lu", &first, &last, &offset, &inode) != 4) continue;
    for (int i = 0; i < FILES; ++i) {
      if (inode != files[i].inode) continue;
      check(found->count < MAPPINGS, "too many mappings");
      found->of[found->count++] = (range){first, last, offset, i};
    }
  }
  fclose(list);
}

/* Null: the address is in none of the files. */
static const range* range_of(const mappings* all, unsigned long address) {
  for (int i = 0; i < all->count; ++i) {
    if (address >= all->of[i].first && address < all->of[i].last) return &all->of[i];
  }
  return NULL;
}

/* The lines that one instruction may change: of one file, or, where `file` is FILES, of all. */
typedef struct {
  int file;
  size_t first, count;
} suspects;

/* Those that a store of at most LINE bytes may change. */
static suspects suspects_at(const mappings* all, unsigned long address) {
  const range* in = range_of(all, address);
  if (in == NULL) return (suspects){0, 0, 0};
  const size_t line = (address - in->first + in->offset) / LINE, end = files[in->file].size / LINE;
  return (suspects){in->file, line, line + 1 < end ? 2 : 1};
}

static void remember(const suspects* some) {
  for (int i = 0; i < FILES; ++i) {
    if (some->file == FILES) memcpy(files[i].before, files[i].now, files[i].size);
  }
  if (some->file == FILES || some->count == 0) return;
  const size_t at = some->first * LINE;
  memcpy(files[some->file].before + at, files[some->file].now + at, some->count * LINE);
}

static void mark_changes(lines* changed, const suspects* some) {
  for (int i = 0; i < FILES; ++i) {
    const size_t first = some->file == FILES ? 0 : some->first;
    const size_t count = some->file == FILES ? files[i].size / LINE : some->file == i ? some->count : 0;
    for (size_t line = first; line < first + count; ++line) {
      if (memcmp(files[i].before + line * LINE, files[i].now + line * LINE, LINE) != 0) changed->of[i][line] = 1;
    }
  }
}

/* --- instructions ----------------------------------------------------------------------------------------- */

static unsigned long register_of(const struct user_regs_struct* regs, int number) {
  const unsigned long values[] = {regs->rax, regs->rcx, regs->rdx, regs->rbx, regs->rsp, regs->rbp,
                                  regs->rsi, regs->rdi, regs->r8,  regs->r9,  regs->r10, regs->r11,
                                  regs->r12, regs->r13, regs->r14, regs->r15};
  return values[number];
}

/* The address that an operand in memory has. `at` is its ModR/M byte; `extra`: bytes of an immediate value. */
static unsigned long address_of(const struct user_regs_struct* regs, const unsigned char* code, int at, int rex,
                                int extra) {
  const int mod = code[at] >> 6, rm = code[at] & 7;
  unsigned long address = 0;
  int next = at + 1, base = rm | (rex & 1) << 3, has_base = 1;
  if (rm == 4) {
    const int sib = code[next++], index = (sib >> 3 & 7) | (rex & 2) << 2;
    if (index != 4) address += register_of(regs, index) << (sib >> 6);
    base = (sib & 7) | (rex & 1) << 3;
    has_base = !((sib & 7) == 5 && mod == 0);
  }
  if (mod == 0 && rm == 5) {
    int displacement;
    memcpy(&displacement, code + next, 4);
    return regs->rip + next + 4 + extra + displacement;
  }
  if (has_base) address += register_of(regs, base);
  if (mod == 1) address += (signed char)code[next];
  if (mod == 2 || !has_base) {
    int displacement;
    memcpy(&displacement, code + next, 4);
    address += displacement;
  }
  return address;
}

/* What an instruction may store to. To compare all of the files takes longer than anything else, so it is done only for
 * the few instructions that are not decoded here. */
typedef struct {
  enum { NOTHING, OPERAND, ANYTHING } target;
  unsigned long address; /* of the operand */
  int is_atomic;         /* a read-modify-write of it */
} store;

/* Of an instruction with a prefix VEX or EVEX. */
static store vector_store(int opcode) {
  static const unsigned char stores[] = {0x11, 0x13, 0x17, 0x29, 0x2B, 0x7E, 0x7F, 0xD6, 0xE7};
  return (store){memchr(stores, opcode, sizeof stores) != NULL ? ANYTHING : NOTHING, 0, 0};
}

/* An instruction that only loads its operand counts as one that stores there: nothing is found to have changed. */
static store store_of(const struct user_regs_struct* regs, const unsigned char* code) {
  const store nothing = {NOTHING, 0, 0}, anything = {ANYTHING, 0, 0};
  int at = 0, rex = 0, is_locked = 0;
  for (; code[at] == 0xF0 || code[at] == 0xF2 || code[at] == 0xF3 || code[at] == 0x66; ++at)
    is_locked |= code[at] == 0xF0;
  if (code[at] == 0x64 || code[at] == 0x65) return nothing; /* a variable of the thread */
  if ((code[at] & 0xF0) == 0x40) rex = code[at++];
  int opcode = code[at], extra = 0, has_operand, is_exchange = 0;
  if (opcode == 0x0F) {
    opcode = code[++at];
    if (opcode == 0x05) return anything; /* syscall */
    if ((opcode & 0xF0) == 0x80 || (opcode & 0xF8) == 0xC8 || opcode == 0x31 || opcode == 0x0B) return nothing;
    if (opcode == 0x38 || opcode == 0x3A || opcode == 0xAE) return anything;
    has_operand = 1;
    extra = (opcode & 0xFC) == 0x70 || opcode == 0xA4 || opcode == 0xAC || opcode == 0xBA || opcode == 0xC2 ||
            (opcode >= 0xC4 && opcode <= 0xC6);
  } else {
    if ((opcode >= 0xA4 && opcode <= 0xA7) || opcode == 0xAA || opcode == 0xAB) return anything; /* strings */
    if (opcode == 0xC5) return vector_store(code[at + 2]);
    if (opcode == 0xC4) return vector_store(code[at + 3]);
    if (opcode == 0x62) return vector_store(code[at + 4]);
    has_operand = (opcode < 0x40 && (opcode & 7) < 4) || opcode == 0x63 || opcode == 0x69 || opcode == 0x6B ||
                  (opcode >= 0x80 && opcode <= 0x8F) || (opcode & 0xFE) == 0xC0 || (opcode & 0xFE) == 0xC6 ||
                  (opcode & 0xFC) == 0xD0 || (opcode & 0xF8) == 0xD8 || (opcode & 0xFE) == 0xF6 ||
                  (opcode & 0xFE) == 0xFE;
    is_exchange = (opcode & 0xFE) == 0x86;
    if (opcode == 0x69 || opcode == 0x81 || opcode == 0xC7) extra = 4;
    if (opcode == 0x6B || opcode == 0x80 || opcode == 0x83 || (opcode & 0xFE) == 0xC0 || opcode == 0xC6) extra = 1;
    if ((opcode & 0xFE) == 0xF6 && (code[at + 1] >> 3 & 7) < 2) extra = opcode == 0xF6 ? 1 : 4;
  }
  if (!has_operand || code[at + 1] >> 6 == 3) return nothing;
  return (store){OPERAND, address_of(regs, code, at + 1, rex, extra), is_locked || is_exchange};
}

/* --- counting --------------------------------------------------------------------------------------------- */

typedef struct {
  int instructions, atomics;
  lines changed;
} counts;

static void wait_for_stop(pid_t pid) {
  int status;
  check(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP,
        "the traced process ended");
}

static void go_on(pid_t pid) {
  check(ptrace(PTRACE_CONT, pid, 0, 0) == 0, "ptrace");
  wait_for_stop(pid);
}

/* From the int3 at which the process has stopped to the next one. */
static void count(pid_t pid, counts* found) {
  mappings all;
  read_mappings(pid, &all);
  for (; found->instructions < STEPS; ++found->instructions) {
    struct user_regs_struct regs;
    unsigned long words[2];
    check(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0, "ptrace");
    for (int i = 0; i < 2; ++i) words[i] = ptrace(PTRACE_PEEKTEXT, pid, (char*)regs.rip + 8 * i, 0);
    const unsigned char* code = (const unsigned char*)words;
    const int is_end = code[0] == 0xCC;
    const store done = store_of(&regs, code);
    const suspects some = done.target == OPERAND ? suspects_at(&all, done.address)
                                                 : (suspects){done.target == ANYTHING ? FILES : 0, 0, 0};
    if (!is_end && done.is_atomic && some.count != 0) ++found->atomics;
    remember(&some);
    check(ptrace(PTRACE_SINGLESTEP, pid, 0, 0) == 0, "ptrace");
    wait_for_stop(pid);
    mark_changes(&found->changed, &some);
    if (is_end) return;
  }
  check(0, "an operation that does not end");
}

static pid_t start(int number) {
  const pid_t pid = fork();
  check(pid >= 0, "fork");
  if (pid == 0) be_traced(number);
  wait_for_stop(pid);
  return pid;
}

/* Waits for the end: otherwise the next run finds the locks of this one held by a process that is still ending. */
static void end(pid_t pid) {
  check(ptrace(PTRACE_CONT, pid, 0, 0) == 0, "ptrace");
  check(waitpid(pid, NULL, 0) == pid, "waitpid");
}

static counts* new_counts(void) {
  counts* found = calloc(1, sizeof *found);
  for (int i = 0; i < FILES; ++i) found->changed.of[i] = calloc(1, files[i].size / LINE + 1);
  return found;
}

static void report(const char* what, const counts* one, const counts* two) {
  int changed = 0, common = 0;
  for (int i = 0; i < FILES; ++i) {
    for (size_t line = 0; line <= files[i].size / LINE; ++line) {
      changed += one->changed.of[i][line];
      common += one->changed.of[i][line] && two->changed.of[i][line];
    }
  }
  printf("| %-27s | %12d | %25d | %13d | %31d |\n", what, one->instructions, one->atomics, changed, common);
}

int main(void) {
  const pid_t one = start(0), two = start(1);
  map_file(0, NAME ".dict");
  map_file(1, "processes");
  printf("| %-27s | %12s | %25s | %13s | %31s |\n", "operation", "instructions", "atomic read-modify-writes",
         "lines changed", "of them, by other keys as well");
  puts(
      "| --------------------------- | ------------ | ------------------------- | ------------- | "
      "------------------------------- |");
  for (int i = 0; i < OPERATIONS; ++i) {
    counts *mine = new_counts(), *theirs = new_counts();
    count(one, mine);
    count(two, theirs);
    report(operations[i].what, mine, theirs);
    go_on(one);
    go_on(two);
  }
  end(one);
  end(two);
  return 0;
}

#endif
