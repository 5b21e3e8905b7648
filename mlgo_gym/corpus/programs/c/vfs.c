/* An in-memory file system: inodes, directories, hard and symbolic links, path resolution and file descriptors. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_LEN = 28, BLOCK_SIZE = 64, FILE_BLOCKS = 64, MAX_INODES = 128, MAX_FDS = 16, ROOT = 0, NO_INODE = -1, MAX_SYMLINKS = 8, PATH_LEN = 256 };
enum { VFS_READ = 1, VFS_WRITE = 2, VFS_CREATE = 4, VFS_TRUNCATE = 8, VFS_APPEND = 16 };

typedef enum { TYPE_FREE, TYPE_FILE, TYPE_DIR, TYPE_LINK } inode_type;

typedef struct {
    char name[NAME_LEN];
    int inode;
} dir_entry;

typedef struct {
    inode_type type;
    int links;  /* names that lead here */
    int opens;  /* descriptors that refer to it */
    int parent; /* of a directory */
    size_t size;
    uint8_t *blocks[FILE_BLOCKS]; /* of files and links; NULL is a hole */
    dir_entry *entries;           /* of directories */
    int entry_count, entry_cap;
} inode;

typedef struct {
    int inode;
    int flags;
    size_t pos;
} descriptor;

typedef struct {
    inode nodes[MAX_INODES];
    descriptor fds[MAX_FDS];
    size_t blocks_used;
} vfs;

typedef struct {
    inode_type type;
    size_t size;
    int links;
} vfs_stat_info;

/* Where a path leads: its last directory, its last name and, if it exists, what the name means. */
typedef struct {
    int dir;
    char name[NAME_LEN];
    int target;
} resolved;

/* The public functions return 0 or a result on success and a negative errno value on failure. */
int vfs_selftest(void);

/* ---- inodes ---- */

static inode *get_inode(vfs *fs, int id) { return &fs->nodes[id]; }
static bool is_dir(const vfs *fs, int id) { return fs->nodes[id].type == TYPE_DIR; }
static bool is_link(const vfs *fs, int id) { return fs->nodes[id].type == TYPE_LINK; }
static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

static int alloc_inode(vfs *fs, inode_type type) {
    for (int id = 0; id < MAX_INODES; id++) {
        if (fs->nodes[id].type != TYPE_FREE) continue;
        *get_inode(fs, id) = (inode){.type = type, .parent = NO_INODE};
        return id;
    }
    return -ENOSPC;
}

static void free_block(vfs *fs, inode *n, size_t index) {
    if (!n->blocks[index]) return;
    free(n->blocks[index]);
    n->blocks[index] = NULL;
    fs->blocks_used--;
}

static void free_blocks_from(vfs *fs, inode *n, size_t first) {
    for (size_t i = first; i < FILE_BLOCKS; i++) free_block(fs, n, i);
}

static void free_inode(vfs *fs, int id) {
    inode *n = get_inode(fs, id);
    free_blocks_from(fs, n, 0);
    free(n->entries);
    memset(n, 0, sizeof *n);
}

/* An inode lives as long as it has a name or an open descriptor. */
static void drop_if_unused(vfs *fs, int id) {
    const inode *n = get_inode(fs, id);
    if (n->links == 0 && n->opens == 0) free_inode(fs, id);
}

/* ---- file contents ---- */

static size_t block_of(size_t pos) { return pos / BLOCK_SIZE; }
static size_t offset_in_block(size_t pos) { return pos % BLOCK_SIZE; }
static size_t chunk_at(size_t pos, size_t left) { return min_size(BLOCK_SIZE - offset_in_block(pos), left); }

static uint8_t *get_block(vfs *fs, inode *n, size_t index) {
    if (!n->blocks[index]) {
        n->blocks[index] = calloc(1, BLOCK_SIZE);
        if (n->blocks[index]) fs->blocks_used++;
    }
    return n->blocks[index];
}

static size_t read_content(const inode *n, size_t pos, void *buf, size_t len) {
    uint8_t *out = buf;
    if (pos >= n->size) return 0;
    len = min_size(len, n->size - pos);
    for (size_t left = len, chunk; left; left -= chunk, pos += chunk, out += chunk) {
        const uint8_t *block = n->blocks[block_of(pos)];
        chunk = chunk_at(pos, left);
        if (block)
            memcpy(out, block + offset_in_block(pos), chunk);
        else
            memset(out, 0, chunk);
    }
    return len;
}

static int write_content(vfs *fs, inode *n, size_t pos, const void *buf, size_t len) {
    const uint8_t *in = buf;
    if (pos + len > (size_t)FILE_BLOCKS * BLOCK_SIZE) return -EFBIG;
    for (size_t left = len, chunk; left; left -= chunk, pos += chunk, in += chunk) {
        uint8_t *block = get_block(fs, n, block_of(pos));
        if (!block) return -ENOSPC;
        chunk = chunk_at(pos, left);
        memcpy(block + offset_in_block(pos), in, chunk);
    }
    if (pos > n->size) n->size = pos;
    return (int)len;
}

static void truncate_content(vfs *fs, inode *n, size_t size) {
    free_blocks_from(fs, n, block_of(size + BLOCK_SIZE - 1));
    uint8_t *last = offset_in_block(size) ? n->blocks[block_of(size)] : NULL;
    if (last && size < n->size) memset(last + offset_in_block(size), 0, BLOCK_SIZE - offset_in_block(size));
    n->size = size;
}

/* ---- directories ---- */

static int find_entry(const inode *dir, const char *name) {
    for (int i = 0; i < dir->entry_count; i++)
        if (strcmp(dir->entries[i].name, name) == 0) return i;
    return -1;
}

static int lookup(vfs *fs, int dir, const char *name) {
    const inode *d = get_inode(fs, dir);
    if (strcmp(name, ".") == 0) return dir;
    if (strcmp(name, "..") == 0) return d->parent;
    int i = find_entry(d, name);
    return i < 0 ? NO_INODE : d->entries[i].inode;
}

static bool grow_entries(inode *dir) {
    int cap = dir->entry_cap ? dir->entry_cap * 2 : 4;
    dir_entry *entries = realloc(dir->entries, (size_t)cap * sizeof *entries);
    if (!entries) return false;
    dir->entries = entries;
    dir->entry_cap = cap;
    return true;
}

/* Entries stay sorted by name. */
static int add_entry(vfs *fs, int dir, const char *name, int id) {
    inode *d = get_inode(fs, dir);
    if (d->entry_count == d->entry_cap && !grow_entries(d)) return -ENOSPC;
    int at = d->entry_count++;
    for (; at > 0 && strcmp(d->entries[at - 1].name, name) > 0; at--) d->entries[at] = d->entries[at - 1];
    d->entries[at].inode = id;
    strcpy(d->entries[at].name, name);
    get_inode(fs, id)->links++;
    if (is_dir(fs, id)) get_inode(fs, id)->parent = dir;
    return 0;
}

static void remove_entry(vfs *fs, int dir, const char *name) {
    inode *d = get_inode(fs, dir);
    int at = find_entry(d, name), id = d->entries[at].inode;
    d->entry_count--;
    for (; at < d->entry_count; at++) d->entries[at] = d->entries[at + 1];
    get_inode(fs, id)->links--;
    drop_if_unused(fs, id);
}

static bool dir_empty(vfs *fs, int id) { return get_inode(fs, id)->entry_count == 0; }

static bool is_inside(vfs *fs, int id, int ancestor) {
    while (id != ancestor && id != ROOT) id = get_inode(fs, id)->parent;
    return id == ancestor;
}

/* ---- paths ---- */

static const char *skip_slashes(const char *path) {
    while (*path == '/') path++;
    return path;
}

/* Copies the next component; returns the rest of the path, or NULL when the name is too long. */
static const char *next_name(const char *path, char *name) {
    path = skip_slashes(path);
    size_t n = strcspn(path, "/");
    if (n >= NAME_LEN) return NULL;
    memcpy(name, path, n);
    name[n] = '\0';
    return skip_slashes(path + n);
}

static int resolve_from(vfs *fs, int dir, const char *path, bool follow, int budget, resolved *out);

static int follow_link(vfs *fs, int budget, resolved *out) {
    char target[PATH_LEN];
    if (budget == 0) return -ELOOP;
    size_t n = read_content(get_inode(fs, out->target), 0, target, sizeof target - 1);
    target[n] = '\0';
    return resolve_from(fs, *target == '/' ? ROOT : out->dir, target, true, budget - 1, out);
}

static int resolve_from(vfs *fs, int dir, const char *path, bool follow, int budget, resolved *out) {
    *out = (resolved){.dir = dir, .name = ".", .target = dir};
    path = skip_slashes(path);
    while (*path) {
        if (out->target == NO_INODE) return -ENOENT;
        if (!is_dir(fs, out->target)) return -ENOTDIR;
        out->dir = out->target;
        path = next_name(path, out->name);
        if (!path) return -ENAMETOOLONG;
        out->target = lookup(fs, out->dir, out->name);
        if (out->target != NO_INODE && is_link(fs, out->target) && (*path || follow)) {
            int error = follow_link(fs, budget, out);
            if (error) return error;
        }
    }
    return 0;
}

static int resolve(vfs *fs, const char *path, bool follow, resolved *out) { return resolve_from(fs, ROOT, path, follow, MAX_SYMLINKS, out); }

static int resolve_existing(vfs *fs, const char *path, bool follow, resolved *out) {
    int error = resolve(fs, path, follow, out);
    return !error && out->target == NO_INODE ? -ENOENT : error;
}

/* Resolves a path whose last name must be new. */
static int resolve_new(vfs *fs, const char *path, resolved *out) {
    int error = resolve(fs, path, false, out);
    return !error && out->target != NO_INODE ? -EEXIST : error;
}

static bool is_special(const char *name) { return strcmp(name, ".") == 0 || strcmp(name, "..") == 0; }

static int create_at(vfs *fs, const resolved *where, inode_type type) {
    int id = alloc_inode(fs, type);
    if (id < 0) return id;
    int error = add_entry(fs, where->dir, where->name, id);
    if (error) free_inode(fs, id);
    return error ? error : id;
}

static int id_to_status(int id) { return id < 0 ? id : 0; }

int vfs_mkdir(vfs *fs, const char *path) {
    resolved r;
    int error = resolve_new(fs, path, &r);
    return error ? error : id_to_status(create_at(fs, &r, TYPE_DIR));
}

int vfs_symlink(vfs *fs, const char *target, const char *path) {
    resolved r;
    int error = resolve_new(fs, path, &r);
    int id = error ? error : create_at(fs, &r, TYPE_LINK);
    return id < 0 ? id : id_to_status(write_content(fs, get_inode(fs, id), 0, target, strlen(target)));
}

int vfs_link(vfs *fs, const char *from, const char *to) {
    resolved r, old;
    int error = resolve_existing(fs, from, false, &old);
    if (error || (error = resolve_new(fs, to, &r))) return error;
    return is_dir(fs, old.target) ? -EPERM : add_entry(fs, r.dir, r.name, old.target);
}

int vfs_unlink(vfs *fs, const char *path) {
    resolved r;
    int error = resolve_existing(fs, path, false, &r);
    if (error) return error;
    if (is_special(r.name)) return -EINVAL;
    if (is_dir(fs, r.target) && !dir_empty(fs, r.target)) return -ENOTEMPTY;
    remove_entry(fs, r.dir, r.name);
    return 0;
}

int vfs_rename(vfs *fs, const char *from, const char *to) {
    resolved old, new;
    int error = resolve_existing(fs, from, false, &old);
    if (error || (error = resolve_new(fs, to, &new))) return error;
    if (is_special(old.name) || (is_dir(fs, old.target) && is_inside(fs, new.dir, old.target))) return -EINVAL;
    /* The new name comes first, so that the inode always has one. */
    error = add_entry(fs, new.dir, new.name, old.target);
    if (!error) remove_entry(fs, old.dir, old.name);
    return error;
}

int vfs_stat(vfs *fs, const char *path, vfs_stat_info *info) {
    resolved r;
    int error = resolve_existing(fs, path, true, &r);
    if (error) return error;
    const inode *n = get_inode(fs, r.target);
    *info = (vfs_stat_info){n->type, is_dir(fs, r.target) ? (size_t)n->entry_count : n->size, n->links};
    return 0;
}

/* ---- descriptors ---- */

static descriptor *get_fd(vfs *fs, int fd) { return fd >= 0 && fd < MAX_FDS && fs->fds[fd].flags ? &fs->fds[fd] : NULL; }

static int alloc_fd(vfs *fs, int id, int flags) {
    for (int fd = 0; fd < MAX_FDS; fd++) {
        if (get_fd(fs, fd)) continue;
        fs->fds[fd] = (descriptor){id, flags, 0};
        get_inode(fs, id)->opens++;
        return fd;
    }
    return -EMFILE;
}

int vfs_open(vfs *fs, const char *path, int flags) {
    resolved r;
    int error = resolve(fs, path, true, &r);
    if (error) return error;
    if (r.target == NO_INODE) r.target = flags & VFS_CREATE ? create_at(fs, &r, TYPE_FILE) : -ENOENT;
    if (r.target < 0) return r.target;
    if (is_dir(fs, r.target)) return -EISDIR;
    int fd = alloc_fd(fs, r.target, flags);
    if (fd >= 0 && (flags & VFS_TRUNCATE)) truncate_content(fs, get_inode(fs, r.target), 0);
    return fd;
}

int vfs_close(vfs *fs, int fd) {
    descriptor *d = get_fd(fs, fd);
    if (!d) return -EBADF;
    get_inode(fs, d->inode)->opens--;
    drop_if_unused(fs, d->inode);
    d->flags = 0;
    return 0;
}

int vfs_read(vfs *fs, int fd, void *buf, size_t len) {
    descriptor *d = get_fd(fs, fd);
    if (!d || !(d->flags & VFS_READ)) return -EBADF;
    size_t n = read_content(get_inode(fs, d->inode), d->pos, buf, len);
    d->pos += n;
    return (int)n;
}

int vfs_write(vfs *fs, int fd, const void *buf, size_t len) {
    descriptor *d = get_fd(fs, fd);
    if (!d || !(d->flags & VFS_WRITE)) return -EBADF;
    if (d->flags & VFS_APPEND) d->pos = get_inode(fs, d->inode)->size;
    int n = write_content(fs, get_inode(fs, d->inode), d->pos, buf, len);
    if (n > 0) d->pos += (size_t)n;
    return n;
}

int vfs_seek(vfs *fs, int fd, size_t pos) {
    descriptor *d = get_fd(fs, fd);
    if (!d) return -EBADF;
    d->pos = pos;
    return 0;
}

void vfs_init(vfs *fs) {
    memset(fs, 0, sizeof *fs);
    get_inode(fs, alloc_inode(fs, TYPE_DIR))->links = 1;
    get_inode(fs, ROOT)->parent = ROOT;
}

void vfs_destroy(vfs *fs) {
    for (int id = 0; id < MAX_INODES; id++) free_inode(fs, id);
}

/* ---- self test ---- */

static int put_file(vfs *fs, const char *path, const char *text, int flags) {
    int fd = vfs_open(fs, path, VFS_WRITE | VFS_CREATE | flags);
    int n = fd < 0 ? fd : vfs_write(fs, fd, text, strlen(text));
    vfs_close(fs, fd);
    return id_to_status(n);
}

static bool file_is(vfs *fs, const char *path, const char *want) {
    char buf[64] = "";
    int fd = vfs_open(fs, path, VFS_READ), n = vfs_read(fs, fd, buf, sizeof buf - 1);
    vfs_close(fs, fd);
    return n == (int)strlen(want) && strcmp(buf, want) == 0;
}

static bool stat_is(vfs *fs, const char *path, inode_type type, size_t size, int links) {
    vfs_stat_info info;
    return vfs_stat(fs, path, &info) == 0 && info.type == type && info.size == size && info.links == links;
}

static int test_names(vfs *fs) {
    if (vfs_mkdir(fs, "/a") || vfs_mkdir(fs, "/a/b/") || vfs_mkdir(fs, "a/b/c") || vfs_mkdir(fs, "/a") != -EEXIST) return 1;
    if (put_file(fs, "/a/f", "hello", 0) || !file_is(fs, "/a/b/../f", "hello") || !file_is(fs, "/../a/./f", "hello")) return 2;
    if (vfs_link(fs, "/a/f", "/g") || !stat_is(fs, "/g", TYPE_FILE, 5, 2) || vfs_link(fs, "/a", "/h") != -EPERM) return 3;
    if (vfs_unlink(fs, "/a/f") || !file_is(fs, "/g", "hello") || vfs_unlink(fs, "/a") != -ENOTEMPTY) return 4;
    if (vfs_symlink(fs, "../g", "/a/s") || vfs_symlink(fs, "/a", "/d") || !file_is(fs, "/d/s", "hello") || !stat_is(fs, "/d", TYPE_DIR, 2, 1)) return 5;
    if (vfs_symlink(fs, "y", "/x") || vfs_symlink(fs, "x", "/y") || vfs_open(fs, "/x", VFS_READ) != -ELOOP) return 6;
    if (vfs_rename(fs, "/a", "/a/b/z") != -EINVAL || vfs_rename(fs, "/a/b", "/q") || !stat_is(fs, "/q/c/..", TYPE_DIR, 1, 1)) return 7;
    if (vfs_mkdir(fs, "/g/x") != -ENOTDIR || vfs_mkdir(fs, "/no/x") != -ENOENT || vfs_unlink(fs, "/q/..") != -EINVAL) return 8;
    return 0;
}

static int test_contents(vfs *fs) {
    char c[9] = {1};
    size_t before = fs->blocks_used;
    int fd = vfs_open(fs, "/big", VFS_READ | VFS_WRITE | VFS_CREATE);
    if (vfs_seek(fs, fd, 1000) || vfs_write(fs, fd, "end", 3) != 3 || fs->blocks_used != before + 1) return 10; /* with a hole */
    if (vfs_seek(fs, fd, 500) || vfs_read(fs, fd, c, 1) != 1 || c[0] != 0 || vfs_unlink(fs, "/big")) return 11;
    if (vfs_seek(fs, fd, 1001) || vfs_read(fs, fd, c, 9) != 2 || vfs_seek(fs, fd, 1 << 20) || vfs_write(fs, fd, c, 1) != -EFBIG) return 12;
    if (vfs_close(fs, fd) || fs->blocks_used != before || vfs_close(fs, fd) != -EBADF) return 13;
    if (put_file(fs, "/g", " world", VFS_APPEND) || !file_is(fs, "/g", "hello world") || put_file(fs, "/g", "x", VFS_TRUNCATE)) return 14;
    return file_is(fs, "/g", "x") && vfs_open(fs, "/q", VFS_READ) == -EISDIR ? 0 : 15;
}

int vfs_selftest(void) {
    static vfs fs;
    vfs_init(&fs);
    int error = test_names(&fs);
    if (!error) error = test_contents(&fs);
    vfs_destroy(&fs);
    return error ? error : fs.blocks_used != 0;
}
