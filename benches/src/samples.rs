//! Numbers of one kind, and what is told of them.

/// Sorted, never empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// `None` when there is nothing to tell of.
    pub fn new(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        (!values.is_empty()).then_some(Self(values))
    }

    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    pub fn p95(&self) -> f64 {
        self.quantile(0.95)
    }

    /// The middle half's width as a part of the median: how noisy the machine was.
    pub fn spread(&self) -> f64 {
        (self.quantile(0.75) - self.quantile(0.25)) / self.median()
    }

    /// Between two samples, in proportion.
    fn quantile(&self, part: f64) -> f64 {
        let position = part * (self.0.len() - 1) as f64;
        let (below, above) = (self.0[position.floor() as usize], self.0[position.ceil() as usize]);
        below + (above - below) * position.fract()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_values_does_not_matter() {
        let samples = Samples::new(vec![5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!((samples.median(), samples.spread()), (3.0, 2.0 / 3.0));
        assert!((samples.p95() - 4.8).abs() < 1e-9);
    }

    #[test]
    fn an_even_number_of_values_has_its_median_between_the_two_middle_ones() {
        assert_eq!(Samples::new(vec![1.0, 2.0, 4.0, 100.0]).unwrap().median(), 3.0);
    }

    #[test]
    fn one_value_is_enough_and_none_is_not() {
        let one = Samples::new(vec![7.0]).unwrap();
        assert_eq!((one.median(), one.p95(), one.spread()), (7.0, 7.0, 0.0));
        assert_eq!(Samples::new(Vec::new()), None);
    }
}
