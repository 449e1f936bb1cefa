//! Sizes, defaults, the beginning and the end of an engine.

use crate::border::{
    Carver, aligned, create, enter, finish, input, ncm_cm, optional_output, output, output_sized,
};
use crate::ncm_error_code::*;
use crate::types::*;
use crate::{ncm_error, ncm_error_code};
use core::ffi::{c_char, c_void};
use core::mem::{align_of, size_of};
use nanocm_core::conn::{ConnSlot, Reply};
use nanocm_core::id::IdSlot;
use nanocm_core::port::{PortRecord, SPACES, map_words};
use nanocm_core::slots::{DeadlineEntry, Link};
use nanocm_core::{Cm, GidEntry, Parts};

/// Counts incompatible changes of this file.
pub const NCM_ABI_VERSION: u32 = 1;

/// The version of the interface this library was built with. A program that was compiled with another
/// NCM_ABI_VERSION must not call anything else.
#[unsafe(no_mangle)]
pub extern "C" fn ncm_abi_version() -> u32 {
    NCM_ABI_VERSION
}

/// The library's version as text, for people. Static.
#[unsafe(no_mangle)]
pub extern "C" fn ncm_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// What an engine's memory must be aligned to, in octets. What malloc returns is.
pub const NCM_MEMORY_ALIGN: usize = 16;

const _: () = assert!(align_of::<ncm_cm>() <= NCM_MEMORY_ALIGN);

/// Fills in capacities for `conns` connections, with a few listeners and the default port range.
/// `size` is sizeof(ncm_capacity).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_capacity_init(
    capacity: *mut ncm_capacity,
    size: usize,
    conns: u32,
) -> ncm_error {
    border! {
        let place = output_sized(capacity, size)?;
        let capacity = ncm_capacity {
            size: size_of::<ncm_capacity>() as u32,
            ids: conns.checked_add(4).ok_or(NCM_BAD_CAPACITY)?,
            conns,
            replies: 16,
            ports: conns.checked_mul(2).and_then(|n| n.checked_add(8)).ok_or(NCM_BAD_CAPACITY)?,
            gids: 64,
            map: 28_232,
            reserved: 0,
        };
        tables(&capacity, &mut Carver::ruler())?;
        place.put(capacity);
        Ok(())
    }
}

/// Fills in the default settings, with a seed that has no default: it must never repeat over reboots
/// (see `ncm_config.seed`). `size` is sizeof(ncm_config).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_config_init(
    config: *mut ncm_config,
    size: usize,
    seed: u64,
) -> ncm_error {
    border! {
        output_sized(config, size)?.put(nanocm_core::Config::new(seed).into());
        Ok(())
    }
}

/// How many octets an engine of these capacities needs: `*size`. It may be another number in another
/// version of the library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_memory_size(
    capacity: *const ncm_capacity,
    size: *mut usize,
) -> ncm_error {
    border! {
        let (capacity, size) = (input(capacity)?, output(size)?);
        let mut ruler = Carver::ruler();
        tables(&capacity, &mut ruler)?;
        size.put(ruler.taken());
        Ok(())
    }
}

/// Makes an engine in `memory`, which has at least ncm_memory_size octets, aligned to
/// NCM_MEMORY_ALIGN, and is the engine's until ncm_finish. What was there before is overwritten.
/// `*cm` is the engine; it must not be copied or moved. If it fails the memory may have been written to
/// all the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_init(
    memory: *mut c_void,
    size: usize,
    capacity: *const ncm_capacity,
    config: *const ncm_config,
    cm: *mut *mut ncm_cm,
) -> ncm_error {
    border! {
        let memory = aligned(memory.cast(), NCM_MEMORY_ALIGN)?;
        let (capacity, settings, cm) = (input(capacity)?, input(config)?, output(cm)?);
        let config = settings.to_rust()?;
        let mut ruler = Carver::ruler();
        tables(&capacity, &mut ruler)?;
        if ruler.taken() > size {
            return Err(NCM_MEMORY_TOO_SMALL);
        }
        let made = create(memory, settings.check_thread == 1, || {
            Ok(Cm::new(tables(&capacity, &mut Carver::new(memory, size))?, config)?)
        })?;
        cm.put(made);
        Ok(())
    }
}

/// Ends an engine: its memory is the program's again, and no pointer to it is an engine any more. It
/// never waits for a peer: last words that ncm_poll_transmit has not handed out are not said. While
/// identifiers are alive it is NCM_BUSY, and nothing has happened.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_finish(cm: *mut ncm_cm) -> ncm_error {
    border! {
        finish(cm, |engine| if engine.cm.in_use().0 == 0 { Ok(()) } else { Err(NCM_BUSY) })
    }
}

/// How many identifiers and connection slots are in use; either pointer may be NULL. Connections of
/// destroyed identifiers that are still saying goodbye count.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_get_in_use(
    cm: *const ncm_cm,
    ids: *mut u32,
    conns: *mut u32,
) -> ncm_error {
    border! {
        let (ids, conns) = (optional_output(ids)?, optional_output(conns)?);
        let in_use = enter(cm, |engine| Ok(engine.cm.in_use()))?;
        ids.put(in_use.0 as u32);
        conns.put(in_use.1 as u32);
        Ok(())
    }
}

/// The room for the engine itself and its tables, in this order; with a ruler it is only measured.
fn tables(capacity: &ncm_capacity, carver: &mut Carver) -> Result<Parts<'static>, ncm_error_code> {
    let ncm_capacity { ids, conns, replies, ports, gids, map, reserved, .. } = *capacity;
    if reserved != 0 {
        return Err(NCM_UNKNOWN_FIELDS);
    }
    let some = [ids, conns, replies, ports / 2, gids, map].iter().all(|&count| count > 0);
    if !some || conns >= 1 << 23 || gids >= 1 << 16 || map > 1 << 16 {
        return Err(NCM_BAD_CAPACITY);
    }
    let [ids, conns, replies, ports, gids, map] =
        [ids, conns, replies, ports, gids, map].map(|count| count as usize);
    let words = SPACES * map_words(map);
    carve(carver, ids, conns, replies, ports, gids, words).ok_or(NCM_BAD_CAPACITY)
}

fn carve(
    carver: &mut Carver,
    ids: usize,
    conns: usize,
    replies: usize,
    ports: usize,
    gids: usize,
    map_words: usize,
) -> Option<Parts<'static>> {
    carver.skip::<ncm_cm>(1)?;
    Some(Parts {
        ids: carver.take(ids, IdSlot::EMPTY)?,
        listeners: carver.take(ids, Link::NONE)?,
        tuples: carver.take(ids, Link::NONE)?,
        conns: carver.take(conns, ConnSlot::EMPTY)?,
        deadlines: carver.take(conns, DeadlineEntry::EMPTY)?,
        by_peer_id: carver.take(conns, Link::NONE)?,
        by_peer_qpn: carver.take(conns, Link::NONE)?,
        by_own_qpn: carver.take(conns, Link::NONE)?,
        replies: carver.take(replies, Reply::EMPTY)?,
        gids: carver.take(gids, GidEntry::EMPTY)?,
        ports: carver.take(ports, PortRecord::EMPTY)?,
        port_heads: carver.take(ports, Link::NONE)?,
        maps: carver.take(map_words, 0)?,
    })
}
