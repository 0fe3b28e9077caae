"""The data X as an operator: products, centring and deflation, without ever copying X."""
