//! Text without `core::fmt`, which would be 10 KiB of flash: words and numbers into a buffer. What does not fit is cut.

/// A text that grows in a buffer.
pub(crate) struct Text<'a> {
    buffer: &'a mut [u8],
    length: usize,
}

impl<'a> Text<'a> {
    pub(crate) fn new(buffer: &'a mut [u8]) -> Text<'a> {
        Text { buffer, length: 0 }
    }

    pub(crate) fn put(&mut self, text: &str) -> &mut Self {
        for octet in text.bytes() {
            if let Some(place) = self.buffer.get_mut(self.length) {
                *place = octet;
                self.length += 1;
            }
        }
        self
    }

    pub(crate) fn number(&mut self, mut number: u32) -> &mut Self {
        let mut digits = [0; 10];
        let mut first = digits.len();
        for place in digits.iter_mut().rev() {
            *place = b'0' + (number % 10) as u8;
            number /= 10;
            first -= 1;
            if number == 0 {
                break;
            }
        }
        let digits = digits.get(first..).unwrap_or_default();
        self.put(core::str::from_utf8(digits).unwrap_or_default())
    }

    /// A line of the report.
    pub(crate) fn line(&mut self, name: &str, number: u32) -> &mut Self {
        self.put(name).put(" ").number(number).put("\n")
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }
}
