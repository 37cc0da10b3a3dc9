// Executes the instructions of AMX (TILE, INT8 and BF16) on a processor without them. Each raises SIGILL, and the handler does
// what Intel's manual describes (Software Developer's Manual, volume 2, LDTILECFG to TILEZERO and TDPBF16PS to TDPBUUD).
// Faults of the manual remain faults, as on the real processor: a wrong configuration ends the process with SIGSEGV
// (#GP), and the use of a tile without rows with SIGILL (#UD).
//
// For Linux on x86-64, GNU C. When it is linked into a program with -rdynamic, it also grants the permission to use the
// tiles, for which libraries ask the kernel.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { TILES = 8, ROWS = 16, ROW_BYTES = 64, CONFIG_BYTES = 64 };

struct config {
    uint8_t  palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t  rows[16];
};

// The registers of a thread. The tiles are unusable until a configuration is loaded.
static __thread struct config config;
static __thread uint8_t       tiles[TILES][ROWS][ROW_BYTES];

static int           is_emulating;
static unsigned long executed;

static void fault(int signal_number, const char *what) {
    // From here on only async-signal-safe functions are called.
    ssize_t ignored = write(2, "amx-emulator: ", 14);
    ignored = write(2, what, strlen(what));
    ignored = write(2, "\n", 1);
    (void)ignored;
    signal(signal_number, SIG_DFL);
    raise(signal_number);
    _exit(99);
}

static void invalid_opcode(const char *what) { fault(SIGILL, what); }
static void general_protection(const char *what) { fault(SIGSEGV, what); }

static void load_config(const struct config *from) {
    if (from->palette == 0) {
        memset(&config, 0, sizeof config);
        return;
    }
    if (from->palette != 1) general_protection("LDTILECFG: unknown palette");
    for (int i = 0; i < 14; i++)
        if (from->reserved[i] != 0) general_protection("LDTILECFG: reserved bytes are not 0");
    for (int i = 0; i < 16; i++) {
        if (i >= TILES && (from->rows[i] != 0 || from->row_bytes[i] != 0))
            general_protection("LDTILECFG: more tiles than there are");
        if (from->rows[i] > ROWS || from->row_bytes[i] > ROW_BYTES) general_protection("LDTILECFG: too large a tile");
        if ((from->rows[i] == 0) != (from->row_bytes[i] == 0)) general_protection("LDTILECFG: half a size");
    }
    config = *from;
    memset(tiles, 0, sizeof tiles);
}

static void require_tile(int tile) {
    if (config.palette == 0) invalid_opcode("the tiles are not configured");
    if (tile >= TILES || config.rows[tile] == 0) invalid_opcode("a tile without rows is used");
}

static void move_rows(int tile, uint8_t *memory, int64_t stride, int is_store) {
    require_tile(tile);
    for (int row = config.start_row; row < config.rows[tile]; row++) {
        uint8_t *at = memory + row * stride;
        if (is_store) {
            memcpy(at, tiles[tile][row], config.row_bytes[tile]);
        } else {
            memset(tiles[tile][row], 0, ROW_BYTES);
            memcpy(tiles[tile][row], at, config.row_bytes[tile]);
        }
    }
    if (!is_store)
        for (int row = config.rows[tile]; row < ROWS; row++) memset(tiles[tile][row], 0, ROW_BYTES);
    config.start_row = 0;
}

static int32_t byte_of(uint8_t byte, int is_signed) { return is_signed ? (int8_t)byte : byte; }

static void require_product(int sums, int a, int b) {
    require_tile(sums);
    require_tile(a);
    require_tile(b);
    if (sums == a || sums == b || a == b) invalid_opcode("a tile is used twice");
    if (config.row_bytes[sums] % 4 || config.row_bytes[a] % 4 || config.row_bytes[b] % 4)
        invalid_opcode("a row is no multiple of 4 bytes");
    if (config.rows[sums] != config.rows[a] || config.row_bytes[a] / 4 != config.rows[b] ||
        config.row_bytes[sums] != config.row_bytes[b])
        invalid_opcode("the sizes of the tiles do not fit");
}

static void finish_product(int sums) {
    for (int row = config.rows[sums]; row < ROWS; row++) memset(tiles[sums][row], 0, ROW_BYTES);
    config.start_row = 0;
}

// A bf16 number, or a float's upper half. Numbers below the normal ones count as 0.
static float bf16_of(const uint8_t *at) {
    uint16_t half;
    memcpy(&half, at, 2);
    const uint32_t bits = (half & 0x7F80) == 0 ? (uint32_t)(half & 0x8000) << 16 : (uint32_t)half << 16;
    float          value;
    memcpy(&value, &bits, 4);
    return value;
}

// Adds a · b to sums, for bf16 numbers in pairs. Sums of the first and of the second ones of pairs are rounded by themselves.
static void bf16_products(int sums, int a, int b) {
    require_product(sums, a, b);
    for (int m = 0; m < config.rows[sums]; m++) {
        for (int n = 0; n < config.row_bytes[sums] / 4; n++) {
            float of_pair[2] = {0, 0}, sum;
            for (int k = 0; k < config.row_bytes[a] / 4; k++)
                for (int i = 0; i < 2; i++)
                    of_pair[i] = (float)((double)bf16_of(&tiles[a][m][4 * k + 2 * i]) *
                                             bf16_of(&tiles[b][k][4 * n + 2 * i]) +
                                         of_pair[i]);
            memcpy(&sum, &tiles[sums][m][4 * n], 4);
            sum += of_pair[0] + of_pair[1];
            memcpy(&tiles[sums][m][4 * n], &sum, 4);
        }
    }
    finish_product(sums);
}

// Adds a · b to sums, for bytes in groups of four.
static void dot_products(int sums, int a, int b, int a_is_signed, int b_is_signed) {
    require_product(sums, a, b);
    for (int m = 0; m < config.rows[sums]; m++) {
        for (int k = 0; k < config.row_bytes[a] / 4; k++) {
            for (int n = 0; n < config.row_bytes[sums] / 4; n++) {
                int32_t sum;
                memcpy(&sum, &tiles[sums][m][4 * n], 4);
                for (int i = 0; i < 4; i++)
                    sum += byte_of(tiles[a][m][4 * k + i], a_is_signed) * byte_of(tiles[b][k][4 * n + i], b_is_signed);
                memcpy(&tiles[sums][m][4 * n], &sum, 4);
            }
        }
    }
    finish_product(sums);
}

static uint64_t register_value(const ucontext_t *context, int number) {
    static const int order[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return (uint64_t)context->uc_mcontext.gregs[order[number]];
}

// An operand in memory, given by ModR/M, SIB and displacement (volume 2, chapter 2).
struct operand {
    uint8_t *base;    // includes the displacement, and the index unless it is the stride
    int64_t  stride;  // index times scale
    int      bytes;   // of ModR/M, SIB and displacement
};

static struct operand read_operand(const ucontext_t *context, const uint8_t *modrm, int base_high, int index_high,
                                   int index_is_stride) {
    struct operand operand = {0, 0, 1};
    const int      mod = modrm[0] >> 6, rm = modrm[0] & 7;
    uint64_t       address = 0;
    int            displacement = mod == 1 ? 1 : mod == 2 ? 4 : 0;
    int            is_relative = 0;
    if (rm == 4) {
        const uint8_t sib = modrm[1];
        const int     index = (sib >> 3 & 7) | index_high << 3;
        operand.bytes = 2;
        if ((sib & 7) == 5 && mod == 0)
            displacement = 4;
        else
            address = register_value(context, (sib & 7) | base_high << 3);
        if (index != 4) operand.stride = (int64_t)register_value(context, index) << (sib >> 6);
    } else if (rm == 5 && mod == 0) {
        displacement = 4;
        is_relative = 1;
    } else {
        address = register_value(context, rm | base_high << 3);
    }
    int32_t offset = 0;
    if (displacement == 1) offset = (int8_t)modrm[operand.bytes];
    if (displacement == 4) memcpy(&offset, modrm + operand.bytes, 4);
    operand.bytes += displacement;
    if (is_relative) address = (uint64_t)(modrm + operand.bytes);
    operand.base = (uint8_t *)(address + offset);
    if (!index_is_stride) operand.base += operand.stride;
    return operand;
}

enum { NO_PREFIX, PREFIX_66, PREFIX_F3, PREFIX_F2 };

// Decodes the instruction at `at`. All have a VEX prefix of three bytes, opcode map 0F38, W 0, L 0.
// Returns its length, or 0 when it is not an instruction of AMX.
static int execute(const ucontext_t *context, const uint8_t *at) {
    if (at[0] != 0xC4 || (at[1] & 0x1F) != 2 || (at[2] & 0x84) != 0) return 0;
    const int      r = !(at[1] & 0x80), x = !(at[1] & 0x40), b = !(at[1] & 0x20);
    const int      vvvv = ~(at[2] >> 3) & 15, prefix = at[2] & 3, opcode = at[3];
    const uint8_t *modrm = at + 4;
    const int      mod = modrm[0] >> 6, reg = (modrm[0] >> 3 & 7) | r << 3, rm = (modrm[0] & 7) | b << 3;
    if (opcode == 0x49 && mod == 3) {
        if (prefix == NO_PREFIX && modrm[0] == 0xC0) {
            memset(&config, 0, sizeof config);
        } else if (prefix == PREFIX_F2 && rm == 0) {
            require_tile(reg);
            memset(tiles[reg], 0, sizeof tiles[reg]);
        } else {
            return 0;
        }
        return 5;
    }
    if (opcode == 0x49 && reg == 0 && (prefix == NO_PREFIX || prefix == PREFIX_66)) {
        const struct operand operand = read_operand(context, modrm, b, x, 0);
        if (prefix == NO_PREFIX)
            load_config((const struct config *)operand.base);
        else
            memcpy(operand.base, &config, CONFIG_BYTES);
        return 4 + operand.bytes;
    }
    if (opcode == 0x4B && mod != 3 && prefix != NO_PREFIX) {
        const struct operand operand = read_operand(context, modrm, b, x, 1);
        move_rows(reg, operand.base, operand.stride, prefix == PREFIX_F3);
        return 4 + operand.bytes;
    }
    if (opcode == 0x5C && mod == 3 && prefix == PREFIX_F3) {
        bf16_products(reg, rm, vvvv);
        return 5;
    }
    if (opcode == 0x5E && mod == 3) {
        dot_products(reg, rm, vvvv, prefix == PREFIX_F2 || prefix == PREFIX_F3,
                     prefix == PREFIX_F2 || prefix == PREFIX_66);
        return 5;
    }
    return 0;
}

static void on_illegal_instruction(int signal_number, siginfo_t *info, void *opaque) {
    (void)signal_number;
    (void)info;
    ucontext_t *context = opaque;
    const int   length = execute(context, (const uint8_t *)context->uc_mcontext.gregs[REG_RIP]);
    if (length == 0) invalid_opcode("an instruction that is none of AMX");
    context->uc_mcontext.gregs[REG_RIP] += length;
    __atomic_add_fetch(&executed, 1, __ATOMIC_RELAXED);
}

// Returns how many instructions were emulated.
unsigned long amx_emulated(void) { return executed; }

// Begins to emulate, for all threads.
void amx_emulate(void) {
    struct sigaction action;
    is_emulating = 1;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_illegal_instruction;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGILL, &action, NULL);
}

// Replaces the C library's function: while tiles are emulated, the permission to use them is given without the kernel.
long syscall(long number, ...) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023 };
    long    arguments[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) arguments[i] = va_arg(list, long);
    va_end(list);
    if (is_emulating && number == SYS_arch_prctl && arguments[0] == ARCH_REQ_XCOMP_PERM) return 0;
    long          result;
    register long r10 __asm__("r10") = arguments[3];
    register long r8 __asm__("r8") = arguments[4];
    register long r9 __asm__("r9") = arguments[5];
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(arguments[0]), "S"(arguments[1]), "d"(arguments[2]), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    if (result >= 0 || result < -4095) return result;
    errno = (int)-result;
    return -1;
}
