//! File systems on which a file's owner and mode do not say who chose its content.

/// The numbers that `fstatfs` gives for them (`linux/magic.h`): the kernel makes up their files, or
/// a program of any user does.
const MAGIC: [u64; 23] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0x6265_6570, // configfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0xf97c_ff8c, // selinuxfs
    0x4341_5d53, // smackfs
    0xcafe_4a11, // bpf
    0x6165_676c, // pstore
    0xde5e_81e4, // efivarfs
    0x4249_4e4d, // binfmt_misc
    0x1980_0202, // mqueue
    0x6e73_6673, // nsfs
    0x5049_4446, // pidfs
    0x5049_5045, // pipefs
    0x534f_434b, // sockfs
    0x0904_1934, // anonymous inodes
    0x1cd1,      // devpts
    0x6573_5543, // fusectl
    0x6573_5546, // FUSE
];

/// Whether `magic`, the type that `fstatfs` gives, is that of such a file system.
pub(super) fn is_pseudo(magic: u64) -> bool {
    // Where the field is 32 bits and signed, a large number has come out negative.
    MAGIC.contains(&(magic & 0xffff_ffff))
}
