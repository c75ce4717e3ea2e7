//! An allocator that notices who asks for too much.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};

/// The largest request so far, in bytes.
static LARGEST: AtomicUsize = AtomicUsize::new(0);

/// No request may be larger: many times what the archives here hold.
pub const LIMIT: usize = 256 << 20;

/// The system's allocator.
pub struct Counting;

// Every request is passed on as it is.
#[expect(unsafe_code, reason = "an allocator is unsafe by its trait")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Ordering::Relaxed);
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Fails where anybody asked for more than the limit at once.
#[track_caller]
pub fn check(what: &dyn std::fmt::Display) {
    let largest = LARGEST.load(Ordering::Relaxed);
    assert!(largest <= LIMIT, "{what}: {largest} bytes were asked for at once");
}
