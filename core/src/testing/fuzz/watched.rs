pub(super) struct Watch<'s>(pub(super) crate::Cm<'s>);
impl<'s> Watch<'s> {
    pub(super) fn new(cm: crate::Cm<'s>) -> Self {
        Watch(cm)
    }
}
impl<'s> std::ops::Deref for Watch<'s> {
    type Target = crate::Cm<'s>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
impl<'s> std::ops::DerefMut for Watch<'s> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
