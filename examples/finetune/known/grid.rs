#[derive(Debug, Clone, PartialEq)]
pub struct Grid<T> {
    width: usize,
    cells: Vec<T>,
}

impl<T: Clone + Default> Grid<T> {
    pub fn new(width: usize, height: usize) -> Self {
        Self { width, cells: vec![T::default(); width * height] }
    }

    pub fn get(&self, x: usize, y: usize) -> Option<&T> {
        self.cells.get(y * self.width + x)
    }

    pub fn set(&mut self, x: usize, y: usize, value: T) {
        let place = y * self.width + x;
        self.cells[place] = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_is_set() {
        let mut grid = Grid::<u8>::new(4, 3);
        grid.set(2, 1, 7);
        assert_eq!(grid.get(2, 1), Some(&7));
    }
}
