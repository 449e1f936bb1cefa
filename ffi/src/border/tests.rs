use super::*;
use crate::types::ncm_capacity;
use crate::{NCM_MEMORY_ALIGN, ncm_capacity_init, ncm_get_in_use, ncm_memory_size};
use crate::{ncm_config, ncm_config_init, ncm_finish, ncm_init};

/// A structure that has grown by `b` and `c` since it was published.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Grown {
    size: u32,
    a: u32,
    b: u32,
    c: u32,
}

// SAFETY: four `u32`.
unsafe impl Struct for Grown {
    const FIRST_SIZE: usize = 8;
}

/// One with a tail, as of a newer program.
fn read(size: u32, words: [u32; 7]) -> Result<Grown, ncm_error_code> {
    let [a, b, c, ..] = words;
    let memory = [size, a, b, c, words[3], words[4], words[5], words[6]];
    // SAFETY: the memory is as long as any size that is tried.
    unsafe { input((&raw const memory).cast::<Grown>()) }
}

#[test]
fn a_structure_may_be_older_or_newer_than_the_library() {
    let now = read(16, [1, 2, 3, 9, 9, 9, 9]);
    assert_eq!(now, Ok(Grown { size: 16, a: 1, b: 2, c: 3 }));
    let older = read(8, [1, 2, 3, 9, 9, 9, 9]);
    assert_eq!(older, Ok(Grown { size: 8, a: 1, b: 0, c: 0 }));
    let newer = read(24, [1, 2, 3, 0, 0, 9, 9]);
    assert_eq!(newer, Ok(Grown { size: 24, a: 1, b: 2, c: 3 }));
    for tail in [[1, 0], [0, 1 << 31]] {
        assert_eq!(read(24, [1, 2, 3, tail[0], tail[1], 0, 0]), Err(NCM_UNKNOWN_FIELDS));
    }
    for size in [0, 4, 7, 4097, u32::MAX] {
        assert_eq!(read(size, [0; 7]), Err(NCM_BAD_SIZE), "{size}");
    }
}

#[test]
fn a_result_is_written_as_far_as_the_program_knows_it() {
    let result = Grown { size: 16, a: 1, b: 2, c: 3 };
    for (size, expected) in [
        (8, [8, 1, 9, 9, 9, 9, 9, 9]),
        (12, [12, 1, 2, 9, 9, 9, 9, 9]),
        (16, [16, 1, 2, 3, 9, 9, 9, 9]),
        (24, [24, 1, 2, 3, 0, 0, 9, 9]),
    ] {
        let mut memory = [9u32; 8];
        memory[0] = size;
        // SAFETY: the memory is as long as it says.
        let place = unsafe { output_struct((&raw mut memory).cast::<Grown>()) };
        assert_eq!(memory[0], size);
        place.unwrap_or_else(|error| panic!("{error:?}")).put(result);
        assert_eq!(memory, expected);
    }
}

#[test]
fn pointers_are_looked_at() {
    let memory = [8u32; 4];
    let good = (&raw const memory).cast::<Grown>();
    let (null, odd) = (ptr::null::<Grown>(), good.wrapping_byte_add(1));
    // SAFETY: refused before they are followed; `good` is good.
    unsafe {
        assert_eq!(input(null).unwrap_err(), NCM_NULL_POINTER);
        assert_eq!(input(odd).unwrap_err(), NCM_MISALIGNED);
        assert!(input(good).is_ok());
        assert_eq!(value(null).unwrap_err(), NCM_NULL_POINTER);
        assert_eq!(optional(odd).unwrap_err(), NCM_MISALIGNED);
        assert!(optional(null).is_ok_and(|none| none.is_none()));
        assert_eq!(octets(ptr::null(), 1, 9, NCM_OTHER_ERROR).unwrap_err(), NCM_NULL_POINTER);
        assert_eq!(octets(good.cast(), 10, 9, NCM_OTHER_ERROR).unwrap_err(), NCM_OTHER_ERROR);
        assert_eq!(octets(ptr::null(), 0, 9, NCM_OTHER_ERROR).unwrap(), b"");
        assert_eq!(octets(good.cast(), 9, 9, NCM_OTHER_ERROR).unwrap().len(), 9);
    }
}

/// Engine memory.
#[repr(C, align(16))]
struct Memory([u8; 16 << 10]);
const _: () = assert!(align_of::<Memory>() == NCM_MEMORY_ALIGN);

fn engine(memory: &mut Memory) -> *mut ncm_cm {
    let mut capacity = MaybeUninit::<ncm_capacity>::uninit();
    let mut config = MaybeUninit::<ncm_config>::uninit();
    let (mut size, mut cm) = (0, ptr::null_mut());
    // SAFETY: pointers to what they should point to.
    unsafe {
        let place = capacity.as_mut_ptr();
        assert_eq!(ncm_capacity_init(place, size_of::<ncm_capacity>(), 4), 0);
        (*place).map = 64;
        (*place).gids = 2;
        assert_eq!(ncm_memory_size(place, &mut size), 0);
        assert!(size <= size_of::<Memory>(), "{size}");
        assert_eq!(ncm_config_init(config.as_mut_ptr(), size_of::<ncm_config>(), 1), 0);
        (*config.as_mut_ptr()).port_high = (*config.as_mut_ptr()).port_low + 63;
        let at = (&raw mut *memory).cast();
        assert_eq!(ncm_init(at, size_of::<Memory>(), place, config.as_ptr(), &mut cm), 0);
    }
    cm
}

#[test]
fn a_panic_ends_the_engine_and_nothing_else() {
    let mut memory = Memory([0xa5; _]);
    let cm = engine(&mut memory);
    let bug = guard(|| {
        // SAFETY: an engine.
        unsafe { enter(cm, |_| -> Done { panic!("a bug (this test's)") }) }
    });
    assert_eq!(bug, NCM_PANICKED as ncm_error);
    // SAFETY: memory that was an engine.
    unsafe {
        let nothing = ptr::null_mut();
        assert_eq!(ncm_get_in_use(cm, nothing, nothing), NCM_PANICKED as ncm_error);
        assert_eq!(ncm_finish(cm), NCM_PANICKED as ncm_error);
    }
    let again = engine(&mut memory);
    // SAFETY: an engine.
    assert_eq!(unsafe { ncm_finish(again) }, 0);
}

#[test]
fn a_call_within_a_call_is_refused() {
    let mut memory = Memory([0; _]);
    let cm = engine(&mut memory);
    let nothing = ptr::null_mut();
    // SAFETY: an engine.
    unsafe {
        let inner = enter(cm, |_| Ok(ncm_get_in_use(cm, nothing, nothing)));
        assert_eq!(inner, Ok(NCM_IN_CALL as ncm_error));
        assert_eq!(ncm_get_in_use(cm, nothing, nothing), 0);
        assert_eq!(ncm_finish(cm), 0);
        assert_eq!(ncm_get_in_use(cm, nothing, nothing), NCM_NOT_AN_ENGINE as ncm_error);
    }
}

#[test]
fn an_engine_that_was_copied_is_none() {
    let mut memory = Memory([0; _]);
    engine(&mut memory);
    let mut elsewhere = Memory(memory.0);
    let copy = (&raw mut elsewhere).cast::<ncm_cm>();
    // SAFETY: memory as large as an engine.
    let said = unsafe { ncm_get_in_use(copy, ptr::null_mut(), ptr::null_mut()) };
    assert_eq!(said, NCM_NOT_AN_ENGINE as ncm_error);
}

#[test]
fn tables_are_cut_as_they_are_measured() {
    let mut ruler = Carver::ruler();
    let mut memory = Memory([0xff; _]);
    // SAFETY: aligned memory of that size.
    let mut knife = unsafe { Carver::new((&raw mut memory).cast(), 64) };
    for carver in [&mut ruler, &mut knife] {
        assert_eq!(carver.skip::<u8>(3), Some(0));
        assert!(carver.take(2, 0u64).is_some());
        assert_eq!(carver.taken(), 24);
        assert!(carver.take(5, 7u16).is_some());
        assert_eq!(carver.taken(), 34);
    }
    assert_eq!(knife.take(3, 9u8), Some(&mut [9, 9, 9][..]));
    assert!(knife.take(28, 0u8).is_none());
    assert!(ruler.take(usize::MAX, 0u64).is_none());
    assert!(ruler.take(isize::MAX as usize, 0u8).is_none());
}
