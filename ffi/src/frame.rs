//! RoCEv2 frames: the UDP payload of 280 octets around a MAD, with its ICRC.

use crate::border::{enter, input, ncm_cm, octets, optional_output, output, output_struct};
use crate::ncm_error_code::*;
use crate::pump::LONGEST;
use crate::types::*;
use crate::{NCM_MAD_LEN, ncm_error, ncm_error_errno};
use nanocm_core::wire::icrc::{DONT_FRAGMENT, Integrity, Ip, crc32, verify, verify_unseen_id};
use nanocm_core::wire::roce::{self, PAYLOAD_LEN, QP1_SOURCE_PORT, source_port, unframe};
use nanocm_core::{Disposition, Instant, Path, RocePath};

/// Octets of the UDP payload around a MAD.
pub const NCM_FRAME_LEN: usize = 280;
const _: () = assert!(NCM_FRAME_LEN == PAYLOAD_LEN);

/// The UDP port of RoCEv2.
pub const NCM_UDP_PORT: u16 = 4791;
const _: () = assert!(NCM_UDP_PORT == roce::UDP_PORT);

/// The UDP payload of a RoCEv2 packet came, from `frame->path.remote`. The ICRC is checked; then as
/// ncm_handle_datagram. `disposition` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_handle_frame(
    cm: *mut ncm_cm,
    now: u64,
    frame: *const ncm_frame,
    payload: *const u8,
    len: usize,
    disposition: *mut u32,
) -> ncm_error {
    border! {
        let frame = input(frame)?;
        let path = frame.path.to_rust()?;
        let Path::Roce(way) = path else { return Err(NCM_WRONG_LINK) };
        if frame.seen > ncm_seen::NCM_SEEN_VERIFIED as u32 {
            return Err(NCM_INVALID_VALUE);
        }
        if frame.reserved != 0 {
            return Err(NCM_UNKNOWN_FIELDS);
        }
        let payload = octets(payload, len, LONGEST, NCM_INVALID_VALUE)?;
        let place = optional_output(disposition)?;
        let came: Disposition = enter(cm, |engine| {
            Ok(match unframe(payload) {
                Err(fault) => engine.cm.handle_frame_fault(fault),
                Ok(_) if !is_whole(&frame, &way, payload) => engine.cm.handle_bad_icrc(),
                Ok(gsi) => engine.cm.handle_datagram(Instant::from_nanos(now), &path, gsi.mad),
            })
        })?;
        place.put(crate::types::disposition(came));
        Ok(())
    }
}

/// Writes the next datagram as a frame into `payload`, which has room for NCM_FRAME_LEN octets, and
/// says where it goes. `udp_source_port` is the port it will be sent from, which the ICRC covers; 0 for
/// one that is chosen after the path's flow label. Otherwise as ncm_poll_transmit. NCM_WRONG_LINK: the
/// next datagram did not travel over RoCE; the engine has been told that it could not be sent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_poll_frame(
    cm: *mut ncm_cm,
    now: u64,
    udp_source_port: u16,
    payload: *mut u8,
    frame: *mut ncm_frame,
) -> ncm_error {
    border! {
        let place = output_struct(frame)?;
        let out = output(payload.cast::<[u8; PAYLOAD_LEN]>())?;
        let mut payload = [0; PAYLOAD_LEN];
        let sent = enter(cm, |engine| {
            let (now, mut mad) = (Instant::from_nanos(now), [0; NCM_MAD_LEN]);
            let next = engine.cm.poll_transmit(now, &mut mad).ok_or(NCM_EMPTY)?;
            let Path::Roce(path) = next.path else {
                let error = ncm_error_errno(NCM_WRONG_LINK as i32);
                engine.cm.handle_send_failed(now, next.token, error);
                return Err(NCM_WRONG_LINK);
            };
            let port = match (udp_source_port, path.flow_label) {
                (0, 0) => QP1_SOURCE_PORT,
                (0, label) => source_port(label),
                (port, _) => port,
            };
            engine.psn = (engine.psn + 1) & 0xff_ffff;
            let ip = Ip::new(path.local, path.remote);
            roce::frame(&ip, port, engine.psn, &mad, crc32, &mut payload);
            Ok(ncm_frame {
                size: size_of::<ncm_frame>() as u32,
                seen: ncm_seen::NCM_SEEN_IP as u32,
                token: next.token.to_raw(),
                udp_source_port: port,
                ip_id: 0,
                ip_flags: DONT_FRAGMENT,
                reserved: 0,
                path: next.path.into(),
            })
        })?;
        out.put(payload);
        place.put(sent);
        Ok(())
    }
}

/// Whether the ICRC of a frame that came in is right, as far as can be seen.
fn is_whole(frame: &ncm_frame, path: &RocePath, payload: &[u8]) -> bool {
    const VERIFIED: u32 = ncm_seen::NCM_SEEN_VERIFIED as u32;
    const IP: u32 = ncm_seen::NCM_SEEN_IP as u32;
    let (source, destination) = (path.remote, path.local);
    let integrity = match frame.seen {
        VERIFIED => Integrity::Ok,
        IP => {
            let mut ip = Ip::new(source, destination);
            if let Ip::V4 { id, flags_fragment, .. } = &mut ip {
                (*id, *flags_fragment) = (frame.ip_id, frame.ip_flags);
            }
            verify(&ip, frame.udp_source_port, payload, crc32)
        }
        _ => verify_unseen_id(source, destination, frame.udp_source_port, payload, crc32),
    };
    integrity == Integrity::Ok
}
