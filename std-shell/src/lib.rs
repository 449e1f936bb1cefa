//! RDMA connection management for std programs. (in work)

#[cfg(feature = "capture")]
pub mod capture;
pub mod crc;
